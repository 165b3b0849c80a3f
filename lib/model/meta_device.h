#pragma once

namespace bv {

// While an object of this class exists, this thread builds models on LibTorch's meta device:
// parameters have shapes but no memory. For --dry-run, --list and everything else that needs only
// shapes. Guards may be nested.
class MetaDevice {
 public:
  MetaDevice();
  ~MetaDevice();
  static bool active();
};

}  // namespace bv
