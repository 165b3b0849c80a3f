// Marks a plug-in function that bvtrain looks up by name (lib/device/cuda.h).
#pragma once

#define BV_EXPORT extern "C" __attribute__((visibility("default")))
