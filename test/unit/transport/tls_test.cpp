// The HTTP client and TLS: a receiver with a certificate that the test has made.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <openssl/ssl.h>
#include <stdexcept>

#include <gtest/gtest.h>

#include "support/receiver.hpp"
#include <twinbox/sink.hpp>

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class TlsStream : public Stream {
 public:
  TlsStream(SSL_CTX* context, int socket) : ssl_(SSL_new(context)) {
    SSL_set_fd(ssl_, socket);
    open_ = SSL_accept(ssl_) == 1;
  }
  ~TlsStream() override { SSL_free(ssl_); }
  std::size_t read(char* data, std::size_t size) override {
    std::size_t got = 0;
    return open_ && SSL_read_ex(ssl_, data, size, &got) == 1 ? got : 0;
  }
  bool write(std::string_view data) override {
    std::size_t sent = 0;
    return open_ && (data.empty() || SSL_write_ex(ssl_, data.data(), data.size(), &sent) == 1);
  }

 private:
  SSL* ssl_;
  bool open_;
};

class HttpClientOverTls : public ::testing::Test {
 protected:
  HttpClientOverTls() {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to clients that have gone
    std::string name = (fs::temp_directory_path() / "twinbox_tls.XXXXXX").string();
    folder_ = mkdtemp(name.data());
    make_certificate("twinbox", certificate(), key());
    SSL_CTX_use_certificate_file(context_, certificate().c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context_, key().c_str(), SSL_FILETYPE_PEM);
  }
  ~HttpClientOverTls() override {
    receiver_.close();
    std::signal(SIGPIPE, SIG_DFL);
    SSL_CTX_free(context_);
    fs::remove_all(folder_);
  }

  static void make_certificate(const std::string& name, const std::string& file,
                               const std::string& key) {
    const std::string make =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "
        "/CN=" +
        name + " -addext subjectAltName=DNS:localhost -keyout " + key + " -out " + file +
        " 2>/dev/null";
    if (std::system(make.c_str()) != 0) throw std::runtime_error("openssl req");
  }
  std::string certificate() const { return (folder_ / "certificate.pem").string(); }
  std::string key() const { return (folder_ / "key.pem").string(); }
  std::string url(const std::string& host) const {
    return "https://" + host + ":" + std::to_string(receiver_.port()) + "/";
  }
  std::string answer(HttpClientOptions options, const std::string& host) {
    options.allow = {"127.0.0.1"};
    HttpClient client{std::move(options)};
    try {
      return std::to_string(client.send({.target = url(host), .body = "x"}, 60s).status);
    } catch (const HttpError& error) {
      return error.what();
    }
  }

  fs::path folder_;
  SSL_CTX* context_ = SSL_CTX_new(TLS_server_method());
  Receiver receiver_{{},
                     [this](int socket) { return std::make_unique<TlsStream>(context_, socket); }};
};

TEST_F(HttpClientOverTls, takes_a_certificate_that_its_file_vouches_for) {
  EXPECT_EQ(answer({.ca_file = certificate()}, "localhost"), "200");
  EXPECT_EQ(receiver_.requests().at(0).body, "x");
}

TEST_F(HttpClientOverTls, sends_nothing_to_a_certificate_that_nobody_vouches_for) {
  const std::string error = answer({}, "localhost");
  EXPECT_NE(error.find("certificate"), std::string::npos) << error;
  EXPECT_TRUE(receiver_.requests().empty());
}

TEST_F(HttpClientOverTls, shows_its_certificate_to_a_receiver_that_asks_for_one) {
  const std::string client = (folder_ / "client").string();
  make_certificate("client", client + ".pem", client + ".key");
  make_certificate("stranger", client + ".stranger.pem", client + ".stranger.key");
  SSL_CTX_load_verify_locations(context_, (client + ".pem").c_str(), nullptr);
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  HttpClientOptions options{.ca_file = certificate()};
  EXPECT_NE(answer(options, "localhost"), "200");
  options.certificate_file = client + ".stranger.pem";
  options.key_file = client + ".stranger.key";
  EXPECT_NE(answer(options, "localhost"), "200");
  options.certificate_file = client + ".none.pem";
  const std::string error = answer(options, "localhost");
  EXPECT_NE(error.find(".none.pem"), std::string::npos) << error;
  EXPECT_TRUE(receiver_.requests().empty());
  options.certificate_file = client + ".pem";
  options.key_file = client + ".key";
  EXPECT_EQ(answer(options, "localhost"), "200");
  std::ofstream{client + ".both"} << std::ifstream{client + ".pem"}.rdbuf()
                                  << std::ifstream{client + ".key"}.rdbuf();
  EXPECT_EQ(answer({.ca_file = certificate(), .certificate_file = client + ".both"}, "localhost"),
            "200");
  EXPECT_EQ(receiver_.requests().size(), 2u);
  EXPECT_THROW(HttpClient({.key_file = client + ".key"}), std::invalid_argument);
}

TEST_F(HttpClientOverTls, sends_nothing_to_a_certificate_of_another_name) {
  const std::string error = answer({.ca_file = certificate()}, "127.0.0.1");
  EXPECT_NE(error.find("127.0.0.1"), std::string::npos) << error;
  EXPECT_TRUE(receiver_.requests().empty());
}

}  // namespace
}  // namespace twinbox::test
