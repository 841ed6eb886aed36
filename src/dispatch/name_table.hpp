// A value for each name, found without a lock; the number of names is bounded.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace twinbox {

/// Thread-safe. Names are never removed, so readers walk the chains without a lock.
template <class T>
class NameTable {
 public:
  NameTable(std::size_t most, std::string rest)
      : most_(most), heads_(std::bit_ceil(std::clamp<std::size_t>(most, 16, 4096))) {
    rest_.name = std::move(rest);
  }

  /// The value of a name; the shared value of the rest when there are too many names.
  T& operator[](std::string_view name) {
    std::atomic<Node*>& head = heads_[std::hash<std::string_view>{}(name) & (heads_.size() - 1)];
    if (Node* node = find(head, name)) return node->value;
    if (full_.load(std::memory_order_relaxed)) return use_rest();
    const std::scoped_lock lock{adding_};
    if (Node* node = find(head, name)) return node->value;
    if (nodes_.size() >= most_) {
      full_ = true;
      return use_rest();
    }
    nodes_.push_back(std::make_unique<Node>());
    Node& node = *nodes_.back();
    node.name = name;
    node.next = head.load(std::memory_order_relaxed);
    head.store(&node, std::memory_order_release);
    return node.value;
  }

  /// By name; the rest is last, if it was ever needed.
  template <class F>
  void for_each(F&& call) const {
    std::vector<const Node*> nodes;
    {
      const std::scoped_lock lock{adding_};
      for (const auto& node : nodes_) nodes.push_back(node.get());
    }
    std::sort(nodes.begin(), nodes.end(),
              [](const Node* a, const Node* b) { return a->name < b->name; });
    for (const Node* node : nodes) call(node->name, node->value);
    if (rest_used_.load()) call(rest_.name, rest_.value);
  }

 private:
  struct Node {
    std::string name = {};
    T value = {};
    Node* next = nullptr;
  };

  static Node* find(const std::atomic<Node*>& head, std::string_view name) {
    Node* node = head.load(std::memory_order_acquire);
    while (node != nullptr && node->name != name) node = node->next;
    return node;
  }
  T& use_rest() {
    if (!rest_used_.load(std::memory_order_relaxed)) rest_used_ = true;
    return rest_.value;
  }

  const std::size_t most_;
  std::vector<std::atomic<Node*>> heads_;
  mutable std::mutex adding_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::atomic<bool> full_ = false;
  std::atomic<bool> rest_used_ = false;
  Node rest_;
};

}  // namespace twinbox
