#include "lib/model/meta_device.h"

namespace bv {
namespace {

thread_local int depth = 0;

}  // namespace

MetaDevice::MetaDevice() { ++depth; }
MetaDevice::~MetaDevice() { --depth; }
bool MetaDevice::active() { return depth > 0; }

}  // namespace bv
