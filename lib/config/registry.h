// Registries of plug-ins by name: models, sources, ops, optimizers, decays, losses, tasks,
// evaluators.
//
// A kind of plug-in is an abstract class that holds
//     using Registry = bv::Registry<Kind, Env...>;
//     static constexpr const char* kKind = "model";    // the kind in words, for messages
// A plug-in is one .cc file that ends in
//     const Register<Kind, ItsClass> registered("its_name");
// Its constructor takes (const Config&, const Env&...), reads its keys and does nothing slow.
//
// Plug-ins register before main(); the tables do not change afterwards.
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

  // Constructs the plug-in `name` from `config` and reports the keys of `config` that its
  // constructor did not read. Throws Error(Exit::usage) for an unknown name ("unknown model 'vot'
  // (did you mean 'vit'?); known: bit, cnn, vit") at `name_place`, the place where the name was
  // written.
  static std::unique_ptr<T> make(const std::string& name, const Config& config,
                                 const Place& name_place, const Env&... env) {
    if (!duplicates().empty()) {
      throw Error(Exit::internal, "internal",
                  fmt::format("{} '{}' is registered twice", T::kKind, duplicates()[0]));
    }
    const auto found = table().find(name);
    if (found == table().end()) {
      throw Error(Exit::usage, name_place, unknown_name_message(T::kKind, name, names()));
    }
    auto made = found->second(config, env...);
    config.done(/*although_incomplete=*/true);  // the constructor came to its end
    return made;
  }

  // Returns the names of all plug-ins of this kind, sorted.
  static std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const auto& [name, factory] : table()) all.push_back(name);
    return all;
  }

  // Called by Register. A name that is taken is reported by the next make().
  static void add(const std::string& name, Factory factory) {
    if (!table().emplace(name, std::move(factory)).second) duplicates().push_back(name);
  }

 private:
  // Function-local statics, because plug-ins register while other globals are being initialized.
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
// Takes the types Env... out of the type of a registry.
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

// A global object of this type registers T among the plug-ins of kind Base.
template <class Base, class T>
struct Register {
  explicit Register(const std::string& name) {
    internal::Adder<T, typename Base::Registry>::add(name);
  }
};

}  // namespace bv
