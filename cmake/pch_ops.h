// Precompiled for the modules that compute with tensors.
#pragma once
#include "pch.h"

#include <ATen/TensorOperators.h>
