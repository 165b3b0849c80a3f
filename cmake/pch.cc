// Carries the precompiled header pch.h.
