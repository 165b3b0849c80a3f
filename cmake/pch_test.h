// Precompiled for the tests of the modules that use LibTorch.
#pragma once
#include "pch.h"

#include <ATen/ATen.h>
#include <catch2/catch.hpp>
