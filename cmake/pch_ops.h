// Precompiled for the rooms that compute with tensors.
#pragma once
#include "pch.h"

#include <ATen/TensorOperators.h>
