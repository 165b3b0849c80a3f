// Marks a function of the plug-in that bvtrain looks up by its name (lib/device/cuda.h).
#pragma once

#define BV_EXPORT extern "C" __attribute__((visibility("default")))
