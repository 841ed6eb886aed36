// The HTTP client against a receiver on the loopback that behaves, and one that does not.
#include <atomic>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "support/race.hpp"
#include "support/receiver.hpp"
#include <twinbox/sink.hpp>

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;

HttpClientOptions on_loopback(HttpClientOptions options = {}) {
  options.allow = {"127.0.0.0/8"};
  return options;
}

HttpRequest a_post(const std::string& url, std::string body = "hello") {
  return {.target = url, .body = std::move(body)};
}

/// Far longer than anything here takes.
constexpr Duration patience = 60s;

std::string complaint(HttpClient& client, const HttpRequest& request, Duration timeout = patience) {
  try {
    const HttpResponse response = client.send(request, timeout);
    return "answered " + std::to_string(response.status);
  } catch (const HttpError& error) {
    return error.what();
  }
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(HttpClientTo, a_receiver_brings_the_request_and_the_answer) {
  Receiver receiver{
      [](const auto&) { return Receiver::answer(201, "made", "X-Trace:  7 \r\nX-Empty:\r\n"); }};
  HttpClient client{on_loopback()};
  HttpRequest request = a_post(receiver.url("/hook?x=1"), "some\0bytes");
  request.method = "PUT";
  request.headers.add("X-One", "1");
  request.headers.add("X-None", "");
  const HttpResponse response = client.send(request, patience);
  EXPECT_EQ(response.status, 201);
  EXPECT_EQ(response.body, "made");
  EXPECT_EQ(response.headers.find("x-trace"), "7");
  EXPECT_EQ(response.headers.find("x-empty"), "");
  const auto came = receiver.requests().at(0);
  EXPECT_TRUE(came.head.starts_with("PUT /hook?x=1 HTTP/1.1\r\n")) << came.head;
  EXPECT_EQ(came.body, request.body);
  EXPECT_EQ(came.header("x-one"), "1");
  EXPECT_TRUE(has(came.head, "\r\nX-None:"));
  EXPECT_EQ(came.header("user-agent"), "twinbox");
  EXPECT_FALSE(has(came.head, "Expect:"));
  EXPECT_FALSE(has(came.head, "Content-Type:"));
}

TEST(HttpClientTo, a_receiver_keeps_one_connection_for_many_requests) {
  Receiver receiver;
  HttpClient client{on_loopback()};
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.send(a_post(receiver.url()), patience).status, 200);
  }
  EXPECT_EQ(receiver.requests().size(), 50u);
  EXPECT_EQ(receiver.connections(), 1);
}

TEST(HttpClientTo, one_host_sends_so_many_requests_at_a_time_and_the_others_wait) {
  std::latch three_came{3};
  std::latch go{1};
  Receiver receiver{[&](const auto&) {
    if (!three_came.try_wait()) three_came.count_down();
    go.wait();
    return Receiver::answer(200);
  }};
  HttpClient client{on_loopback({.per_host = 3})};
  std::jthread opener{[&] {
    three_came.wait();
    go.count_down();
  }};
  race(12, [&](int) { EXPECT_EQ(client.send(a_post(receiver.url()), patience).status, 200); });
  EXPECT_EQ(receiver.requests().size(), 12u);
  EXPECT_EQ(receiver.most_at_once(), 3);
  EXPECT_EQ(receiver.connections(), 3);
}

TEST(HttpClientTo, a_hanging_host_does_not_hold_up_another) {
  std::latch go{1};
  Receiver hanging{[&](const auto&) {
    go.wait();
    return Receiver::answer(200);
  }};
  Receiver quick;
  HttpClient client{on_loopback({.per_host = 1})};
  std::jthread first{[&] { client.send(a_post(hanging.url()), patience); }};
  std::jthread second{[&] { client.send(a_post(hanging.url()), patience); }};
  ASSERT_TRUE(hanging.wait_for(1));
  EXPECT_EQ(client.send(a_post(quick.url()), patience).status, 200);
  go.count_down();
}

TEST(HttpClientTo, a_receiver_that_is_down_says_so_and_finds_it_again) {
  Receiver receiver;
  HttpClient client{on_loopback()};
  EXPECT_EQ(client.send(a_post(receiver.url()), patience).status, 200);
  receiver.close();
  const std::string error = complaint(client, a_post(receiver.url("/x?token=secret")));
  EXPECT_TRUE(has(error, receiver.url("/x") + ": ")) << error;
  EXPECT_TRUE(has(error, "onnect")) << error;
  EXPECT_FALSE(has(error, "secret")) << error;
  receiver.open();
  EXPECT_EQ(client.send(a_post(receiver.url()), patience).status, 200);
}

TEST(HttpClientTo, a_hanging_receiver_gives_up_at_the_timeout) {
  std::latch go{1};
  Receiver receiver{[&](const auto&) {
    go.wait();
    return Receiver::answer(200);
  }};
  HttpClient client{on_loopback()};
  const std::string error = complaint(client, a_post(receiver.url()), 50ms);
  EXPECT_TRUE(has(error, "no complete answer in time (limit 50 ms)")) << error;
  go.count_down();
}

TEST(HttpClientTo, a_receiver_that_drips_gives_up_at_the_timeout) {
  Receiver receiver{[](const auto&) -> Receiver::Answer {
    return {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"};
  }};
  HttpClient client{on_loopback()};
  EXPECT_TRUE(has(complaint(client, a_post(receiver.url()), 100ms), "no complete answer in time"));
}

TEST(HttpClientTo, a_receiver_stops_waiting_when_told_to) {
  std::latch go{1};
  Receiver receiver{[&](const auto&) {
    go.wait();
    return Receiver::answer(200);
  }};
  HttpClient client{on_loopback({.per_host = 1})};
  std::stop_source stop;
  std::string errors[2];
  {
    // One is under way, the other waits for its turn.
    std::vector<std::jthread> senders;
    for (std::string& error : errors) {
      senders.emplace_back([&] {
        try {
          client.send(a_post(receiver.url()), patience, stop.get_token());
        } catch (const HttpError& thrown) {
          error = thrown.what();
        }
      });
    }
    ASSERT_TRUE(receiver.wait_for(1));
    stop.request_stop();
  }
  for (const std::string& error : errors) EXPECT_TRUE(has(error, "stopped before")) << error;
  go.count_down();
  EXPECT_EQ(client.send(a_post(receiver.url()), patience).status, 200);
}

TEST(HttpClientTo, a_receiver_waits_for_its_answer_during_the_grace) {
  std::latch go{1};
  Receiver receiver{[&](const auto&) {
    go.wait();
    return Receiver::answer(200);
  }};
  HttpClient client{on_loopback({.per_host = 1})};
  std::stop_source stop;
  std::atomic<int> answered = 0;
  std::latch refused{1};
  {
    // One is under way, the other waits for its turn.
    std::vector<std::jthread> senders;
    for (int i = 0; i < 2; ++i) {
      senders.emplace_back([&] {
        try {
          client.send(a_post(receiver.url()), patience, stop.get_token(), patience);
          ++answered;
        } catch (const HttpError& thrown) {
          EXPECT_TRUE(has(thrown.what(), "stopped before")) << thrown.what();
          refused.count_down();
        }
      });
    }
    ASSERT_TRUE(receiver.wait_for(1));
    stop.request_stop();
    refused.wait();
    go.count_down();
  }
  EXPECT_EQ(answered, 1);
  EXPECT_EQ(receiver.requests().size(), 1u);
}

TEST(HttpClientTo, a_receiver_gives_up_when_the_grace_is_over) {
  std::latch go{1};
  Receiver receiver{[&](const auto&) {
    go.wait();
    return Receiver::answer(200);
  }};
  HttpClient client{on_loopback()};
  std::stop_source stop;
  std::jthread stopper{[&] {
    EXPECT_TRUE(receiver.wait_for(1));
    stop.request_stop();
  }};
  try {
    client.send(a_post(receiver.url()), patience, stop.get_token(), 50ms);
    ADD_FAILURE() << "answered";
  } catch (const HttpError& error) {
    EXPECT_TRUE(has(error.what(), "stopped before")) << error.what();
  }
  go.count_down();
}

TEST(HttpClientTo, a_receiver_does_not_wait_for_it_when_told_to_stop_before_it_began) {
  std::latch go{1};
  Receiver receiver{[&](const auto&) {
    go.wait();
    return Receiver::answer(200);
  }};
  HttpClient client{on_loopback()};
  std::stop_source stop;
  stop.request_stop();
  // One after the other: a request that the loop has overlooked is not saved by the next one.
  for (int i = 0; i < 2'000; ++i) {
    try {
      client.send(a_post(receiver.url()), patience, stop.get_token());
      ADD_FAILURE() << "answered";
    } catch (const HttpError& error) {
      ASSERT_TRUE(has(error.what(), "stopped before")) << error.what();
    }
  }
  go.count_down();
}

TEST(HttpClientTo, a_receiver_that_closes_mid_answer_has_not_answered) {
  for (const char* bytes :
       {"", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"}) {
    Receiver receiver{[&](const auto&) -> Receiver::Answer { return {bytes, true}; }};
    HttpClient client{on_loopback()};
    const std::string error = complaint(client, a_post(receiver.url()));
    EXPECT_TRUE(has(error, receiver.url())) << error;
  }
}

TEST(HttpClientTo, a_receiver_of_garbage_has_not_answered) {
  for (const char* bytes : {"hello\r\n\r\n", "\x16\x03\x01\x02", "HTTP/1.1 999999 What\r\n\r\n",
                            "220 smtp.example.com ESMTP\r\n"}) {
    Receiver receiver{[&](const auto&) -> Receiver::Answer { return {bytes, true}; }};
    HttpClient client{on_loopback()};
    const std::string error = complaint(client, a_post(receiver.url()));
    EXPECT_TRUE(has(error, receiver.url())) << error;
  }
}

TEST(HttpClientTo, a_receiver_without_end_reads_so_much_and_takes_the_status) {
  Receiver receiver{[](const auto&) -> Receiver::Answer {
    return {"HTTP/1.1 500 Oops\r\nContent-Length: 4000000\r\n\r\n" + std::string(4'000'000, 'x'),
            true};
  }};
  HttpClient client{on_loopback({.max_response = 1000})};
  const HttpResponse response = client.send(a_post(receiver.url()), patience);
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body, std::string(1000, 'x'));
}

TEST(HttpClientTo, a_receiver_of_endless_headers_has_not_answered) {
  Receiver receiver{[](const auto&) -> Receiver::Answer {
    std::string head = "HTTP/1.1 200 OK\r\n";
    for (int i = 0; i < 2000; ++i) {
      head += "X-" + std::to_string(i) + ": " + std::string(50, 'x') + "\r\n";
    }
    return {head + "\r\n", true};
  }};
  HttpClient client{on_loopback()};
  EXPECT_TRUE(has(complaint(client, a_post(receiver.url())), "headers are longer than 65536"));
}

TEST(HttpClientTo, a_redirect_is_an_answer_like_any_other) {
  Receiver receiver;
  receiver.answer_with([&](const auto&) {
    return Receiver::answer(302, "", "Location: " + receiver.url("/elsewhere") + "\r\n");
  });
  HttpClient client{on_loopback()};
  EXPECT_EQ(client.send(a_post(receiver.url()), patience).status, 302);
  EXPECT_EQ(receiver.requests().size(), 1u);
}

TEST(HttpClientTo, an_interim_answer_waits_for_the_last_one) {
  Receiver receiver{[](const auto&) -> Receiver::Answer {
    return {"HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n" + Receiver::answer(204).bytes};
  }};
  HttpClient client{on_loopback()};
  const HttpResponse response = client.send(a_post(receiver.url()), patience);
  EXPECT_EQ(response.status, 204);
  EXPECT_FALSE(response.headers.find("X-Early"));
}

TEST(HttpClientTo, a_private_address_is_refused_whatever_it_is_called) {
  Receiver receiver;
  HttpClient client;
  const std::string port = ":" + std::to_string(receiver.port());
  for (const char* host : {"127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "0.0.0.0",
                           "[::ffff:127.0.0.1]", "[::1]", "[::]"}) {
    const std::string error = complaint(client, a_post("http://" + (host + port)));
    EXPECT_TRUE(has(error, "refused unless they are allowed by name (allow)")) << error;
  }
  EXPECT_TRUE(receiver.requests().empty());
  EXPECT_EQ(receiver.connections(), 0);
}

TEST(HttpClientTo, an_allowed_network_lets_a_name_through) {
  Receiver receiver;
  HttpClient client{on_loopback()};
  const std::string port = ":" + std::to_string(receiver.port());
  EXPECT_EQ(client.send(a_post("http://localhost" + port), patience).status, 200);
}

TEST(HttpClientTo, a_proxy_of_the_environment_is_not_used) {
  Receiver proxy;
  Receiver receiver;
  setenv("http_proxy", proxy.url().c_str(), 1);
  setenv("ALL_PROXY", proxy.url().c_str(), 1);
  HttpClient client{on_loopback()};
  EXPECT_EQ(client.send(a_post(receiver.url()), patience).status, 200);
  unsetenv("http_proxy");
  unsetenv("ALL_PROXY");
  EXPECT_TRUE(proxy.requests().empty());
}

TEST(HttpClientTo, a_proxy_that_was_asked_for_is_used_and_decides_about_addresses) {
  Receiver proxy;
  HttpClient client{{.proxy = proxy.url()}};
  EXPECT_EQ(client.send(a_post("http://10.9.8.7/x"), patience).status, 200);
  EXPECT_TRUE(proxy.requests().at(0).head.starts_with("POST http://10.9.8.7/x HTTP/1.1"));
}

TEST(HttpClientTo, anything_refuses_what_cannot_be_sent) {
  HttpClient client{on_loopback()};
  const auto refused = [&](const HttpRequest& request) {
    try {
      client.send(request, patience);
      return std::string{"sent"};
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
  };
  EXPECT_TRUE(has(refused(a_post("ftp://example.com/")), "https://example.com/path"));
  EXPECT_TRUE(has(refused(a_post("/relative")), "https://example.com/path"));
  EXPECT_TRUE(has(refused(a_post("")), "https://example.com/path"));
  const std::string with_user = refused(a_post("http://me:pass@example.com/"));
  EXPECT_TRUE(has(with_user, "Authorization")) << with_user;
  EXPECT_FALSE(has(with_user, "pass@")) << with_user;
  HttpRequest request = a_post("http://127.0.0.1:1/");
  request.headers.add("X-Bad", "a\r\nX-Evil: 1");
  EXPECT_TRUE(has(refused(request), "line break"));
  request.headers = {{"X Bad", "1"}};
  EXPECT_TRUE(has(refused(request), "no name of a header"));
  request.headers = {{"content-length", "1"}};
  EXPECT_TRUE(has(refused(request), "made by the client"));
}

TEST(HttpClientOf, bad_options_is_refused) {
  EXPECT_THROW(HttpClient{{.per_host = 0}}, std::invalid_argument);
  EXPECT_THROW(HttpClient{{.connect_timeout = 0s}}, std::invalid_argument);
  EXPECT_THROW(HttpClient{{.allow = {"lan"}}}, std::invalid_argument);
  EXPECT_THROW(HttpClient{{.proxy = "somewhere else"}}, std::invalid_argument);
}

}  // namespace
}  // namespace twinbox::test
