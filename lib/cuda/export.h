// A function that bvtrain finds by its name.
#pragma once

#define BV_EXPORT extern "C" __attribute__((visibility("default")))
