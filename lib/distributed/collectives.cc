// The collectives of a Group.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <cstring>

#include "lib/distributed/group_impl.h"

namespace bv {
namespace {

// c10d's own time-outs would abort a collective that waits for a rank in a long phase. Watch
// decides instead when a collective has failed, so c10d gets a time-out of 30 days.
constexpr auto kNoTimeout = std::chrono::hours(24 * 30);

template <class Options>
Options without_timeout() {
  Options options;
  options.timeout = kNoTimeout;
  return options;
}

// Returns the number of children of `rank` in the binomial tree of Gloo's broadcast from `root`.
int tree_children(int rank, int root, int size) {
  const int position = (rank - root + size) % size;
  int children = 0;
  for (int step = 1; step < size; step *= 2)
    if (position < step && position + step < size) ++children;
  return children;
}

void check_flat(const at::Tensor& tensor, const char* what) {
  check(tensor.defined() && tensor.is_contiguous(), "{}: a collective needs a contiguous tensor",
        what);
}

// Whether the end of wait() proves that all ranks have joined the collective: on CUDA only the
// stream waits.
bool proves_all(const at::Tensor& tensor) { return tensor.is_cpu(); }

}  // namespace

Group::Pending Group::all_reduce_sum(at::Tensor tensor, const char* what) {
  if (!communicates(what)) return {};
  check_flat(tensor, what);
  const double sent = 2.0 * (size_ - 1) / size_ * static_cast<double>(tensor.nbytes());
  return impl_->begin(
      what, sent,
      [&] {
        std::vector<at::Tensor> tensors{tensor};
        return impl_->of(tensor).allreduce(tensors, without_timeout<c10d::AllreduceOptions>());
      },
      {}, proves_all(tensor));
}

Group::Pending Group::reduce_scatter_sum(at::Tensor output, at::Tensor input, const char* what) {
  check_flat(output, what);
  check_flat(input, what);
  check(input.numel() == output.numel() * size_, "{}: {} elements for {} parts of {}", what,
        input.numel(), size_, output.numel());
  if (!communicates(what)) {
    output.view(-1).copy_(input.view(-1));
    return {};
  }
  if (!input.is_cpu()) {
    const double sent = static_cast<double>(size_ - 1) * static_cast<double>(output.nbytes());
    return impl_->begin(
        what, sent,
        [&] {
          at::Tensor to = output.view(-1), from = input.view(-1);
          return impl_->of(input)._reduce_scatter_base(
              to, from, without_timeout<c10d::ReduceScatterOptions>());
        },
        {}, proves_all(input));
  }
  // (size, part): row r is the contribution of rank r to this rank's part.
  const at::Tensor rows = at::empty({size_, output.numel()}, output.options());
  const double sent = static_cast<double>(size_ - 1) * static_cast<double>(output.nbytes());
  return impl_->begin(
      what, sent,
      [&] {
        at::Tensor to = rows.view(-1), from = input.view(-1);
        std::vector<int64_t> equal;
        return impl_->cpu->alltoall_base(to, from, equal, equal,
                                         without_timeout<c10d::AllToAllOptions>());
      },
      [rows, output, input] {
        const at::Tensor sum = output.view(-1);
        sum.copy_(rows[0]);
        for (int64_t r = 1; r < rows.size(0); ++r) sum.add_(rows[r]);
      });
}

Group::Pending Group::all_gather(at::Tensor output, at::Tensor input, const char* what) {
  check_flat(output, what);
  check_flat(input, what);
  check(output.numel() == input.numel() * size_, "{}: {} elements for {} parts of {}", what,
        output.numel(), size_, input.numel());
  if (!communicates(what)) {
    if (output.data_ptr() != input.data_ptr()) output.view(-1).copy_(input.view(-1));
    return {};
  }
  const double sent = static_cast<double>(size_ - 1) * static_cast<double>(input.nbytes());
  return impl_->begin(
      what, sent,
      [&] {
        at::Tensor to = output.view(-1), from = input.view(-1);
        return impl_->of(output)._allgather_base(to, from,
                                                 without_timeout<c10d::AllgatherOptions>());
      },
      {}, proves_all(output));
}

Group::Pending Group::send_to_next(at::Tensor output, at::Tensor input, const char* what) {
  check_flat(output, what);
  check_flat(input, what);
  check(output.numel() == input.numel(), "{}: {} elements for {}", what, input.numel(),
        output.numel());
  if (!communicates(what)) {
    output.view(-1).copy_(input.view(-1));
    return {};
  }
  const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  const auto bytes = static_cast<double>(input.nbytes());
  if (!input.is_cpu()) {
    const at::Tensor all = at::empty({size_, input.numel()}, input.options());
    return impl_->begin(
        what, (size_ - 1) * bytes,
        [&] {
          at::Tensor to = all.view(-1), from = input.view(-1);
          return impl_->of(input)._allgather_base(to, from,
                                                  without_timeout<c10d::AllgatherOptions>());
        },
        [all, output, before] { output.view(-1).copy_(all.select(0, before)); }, proves_all(input));
  }
  return impl_->begin(what, size_ > 1 ? bytes : 0, [&] {
    at::Tensor to = output.view(-1), from = input.view(-1);
    std::vector<int64_t> received(static_cast<size_t>(size_)), sent(static_cast<size_t>(size_));
    received[static_cast<size_t>(before)] = sent[static_cast<size_t>(next)] = input.numel();
    return impl_->cpu->alltoall_base(to, from, received, sent,
                                     without_timeout<c10d::AllToAllOptions>());
  });
}

void Group::broadcast(at::Tensor tensor, int root, const char* what) {
  if (!communicates(what)) return;
  check_flat(tensor, what);
  const double sent = tree_children(rank_, root, size_) * static_cast<double>(tensor.nbytes());
  impl_
      ->begin(
          what, sent,
          [&] {
            auto broadcast = without_timeout<c10d::BroadcastOptions>();
            broadcast.rootRank = root;
            std::vector<at::Tensor> tensors{tensor};
            return impl_->of(tensor).broadcast(tensors, broadcast);
          },
          {}, /*by_all=*/false)
      .wait();
}

std::vector<int64_t> Group::all_max(std::span<const int64_t> values, const char* what) {
  std::vector<int64_t> largest(values.begin(), values.end());
  if (!communicates(what) || largest.empty()) return largest;
  const at::Tensor tensor =
      at::from_blob(largest.data(), {static_cast<int64_t>(largest.size())}, at::kLong);
  const double sent = 2.0 * (size_ - 1) / size_ * static_cast<double>(tensor.nbytes());
  impl_
      ->begin(what, sent,
              [&] {
                auto reduce = without_timeout<c10d::AllreduceOptions>();
                reduce.reduceOp = c10d::ReduceOp::MAX;
                std::vector<at::Tensor> tensors{tensor};
                return impl_->cpu->allreduce(tensors, reduce);
              })
      .wait();
  return largest;
}

std::string Group::broadcast_text(std::string text, const char* what) {
  if (!communicates(what)) return text;
  int64_t size = std::ssize(text);
  broadcast(at::from_blob(&size, {1}, at::kLong), 0, what);
  check(size >= 0, "{}: rank 0 sent {} bytes", what, size);
  text.resize(static_cast<size_t>(size));
  if (size > 0) broadcast(at::from_blob(text.data(), {size}, at::kByte), 0, what);
  return text;
}

std::vector<std::string> Group::gather_text(const std::string& text, const char* what) {
  if (!communicates(what)) return {text};
  const int64_t length[] = {std::ssize(text)};
  const int64_t longest = all_max(length, what)[0];
  // Length, then the string, padded to the longest.
  const int64_t width = longest + 8;
  at::Tensor mine = at::zeros({width}, at::kByte), all = at::empty({size_ * width}, at::kByte);
  std::memcpy(mine.mutable_data_ptr(), length, 8);
  std::memcpy(mine.mutable_data_ptr<uint8_t>() + 8, text.data(), text.size());
  all_gather(all, mine, what).wait();
  std::vector<std::string> texts;
  for (int r = 0; r < size_; ++r) {
    const uint8_t* at = all.const_data_ptr<uint8_t>() + r * width;
    int64_t size = 0;
    std::memcpy(&size, at, 8);
    check(size >= 0 && size <= longest, "{}: rank {} sent {} bytes", what, r, size);
    texts.emplace_back(reinterpret_cast<const char*>(at) + 8, static_cast<size_t>(size));
  }
  return texts;
}

void Group::barrier(const char* what) {
  const int64_t nothing[] = {0};
  all_max(nothing, what);
}

}  // namespace bv
