// Registries of plug-ins: models, sources, ops, optimizers, decays, losses, tasks, evaluators.
//
// A plug-in kind is an abstract class with
//     using Registry = bv::Registry<Kind, Env...>;   static constexpr const char* kKind = "model";
// and a plug-in is one file that ends in
//     const Register<Kind, ItsClass> registered("its_name");
// Its constructor takes (const Config&, const Env&...), reads its keys, and does nothing slow.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace bv {

template <class T, class... Env>
class Registry {
 public:
  using Factory = std::function<std::unique_ptr<T>(const Config&, const Env&...)>;

  // Constructs `name` from `config`; `name_place` is where the name was written (for the error
  // "unknown model 'vot' (did you mean 'vit'?); known: bit, cnn, vit"). Reports keys of `config`
  // that the constructor did not read. Throws Error(Exit::usage).
  static std::unique_ptr<T> make(const std::string& name, const Config& config,
                                 const Place& name_place, const Env&... env) {
    if (!duplicates().empty()) {
      throw Error(Exit::internal, "internal",
                  fmt::format("{} '{}' is registered twice", T::kKind, duplicates()[0]));
    }
    const auto found = table().find(name);
    if (found == table().end()) {
      throw Error(Exit::usage, name_place.text(), unknown_name_message(T::kKind, name, names()));
    }
    auto made = found->second(config, env...);
    config.done();
    return made;
  }

  static std::vector<std::string> names() {  // sorted
    std::vector<std::string> all;
    for (const auto& [name, factory] : table()) all.push_back(name);
    return all;
  }

  static void add(const std::string& name, Factory factory) {
    if (!table().emplace(name, std::move(factory)).second) duplicates().push_back(name);
  }

 private:
  static std::map<std::string, Factory>& table() {
    static std::map<std::string, Factory> instance;
    return instance;
  }
  static std::vector<std::string>& duplicates() {
    static std::vector<std::string> instance;
    return instance;
  }
};

namespace internal {
template <class T, class Registry>
struct Adder;
template <class T, class Base, class... Env>
struct Adder<T, Registry<Base, Env...>> {
  static void add(const std::string& name) {
    Registry<Base, Env...>::add(
        name, [](const Config& config, const Env&... env) -> std::unique_ptr<Base> {
          return std::make_unique<T>(config, env...);
        });
  }
};
}  // namespace internal

template <class Base, class T>
struct Register {
  explicit Register(const std::string& name) {
    internal::Adder<T, typename Base::Registry>::add(name);
  }
};

}  // namespace bv
