#include "bare_posts.hpp"

#include <curl/curl.h>
#include <memory>
#include <stdexcept>
#include <vector>

namespace twinbox::bench {
namespace {

using Easy = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Multi = std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)>;
using Fields = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

std::size_t ignore(const char*, std::size_t size, std::size_t count, void*) { return size * count; }

Easy a_post(const std::string& url, const std::string& payload, curl_slist* fields) {
  Easy easy{curl_easy_init(), curl_easy_cleanup};
  curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, payload.data());
  curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(payload.size()));
  curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, fields);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, ignore);
  return easy;
}

void check(const CURLMsg& message) {
  long status = 0;
  curl_easy_getinfo(message.easy_handle, CURLINFO_RESPONSE_CODE, &status);
  if (message.data.result != CURLE_OK || status != 200) {
    throw std::runtime_error(std::string{"the receiver of the benchmark failed: "} +
                             curl_easy_strerror(message.data.result));
  }
}

}  // namespace

double bare_posts(const std::string& url, std::size_t connections, const std::string& payload,
                  std::chrono::milliseconds slice) {
  const Fields fields{curl_slist_append(nullptr, "Content-Type: application/json"),
                      curl_slist_free_all};
  const Multi multi{curl_multi_init(), curl_multi_cleanup};
  std::vector<Easy> posts;
  for (std::size_t i = 0; i < connections; ++i) {
    posts.push_back(a_post(url, payload, fields.get()));
    curl_multi_add_handle(multi.get(), posts.back().get());
  }
  std::size_t answers = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < begin + slice) {
    int running = 0;
    curl_multi_perform(multi.get(), &running);
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi.get(), &left)) {
      check(*message);
      ++answers;
      CURL* easy = message->easy_handle;
      curl_multi_remove_handle(multi.get(), easy);
      curl_multi_add_handle(multi.get(), easy);
    }
    curl_multi_poll(multi.get(), nullptr, 0, 1000, nullptr);
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  for (const Easy& post : posts) curl_multi_remove_handle(multi.get(), post.get());
  return static_cast<double>(answers) / spent.count();
}

}  // namespace twinbox::bench
