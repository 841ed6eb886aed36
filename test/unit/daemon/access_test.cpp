#include "daemon/access/access.hpp"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

/// SHA-256 of "secret".
constexpr const char* secret_hash =
    "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

Sessions sessions;

Access an_access(std::string config = {}) {
  return {parse_config(config, "twinbox.toml", {}), {{"ci", Role::read, secret_hash}}, sessions};
}

/// What a login with the token leaves in a browser.
std::string a_session() { return an_access().log_in("secret")->session; }

HttpRequest a_request(bool loopback, std::initializer_list<HttpHeaders::Field> headers = {}) {
  HttpRequest request{.method = "GET", .loopback = loopback};
  request.headers.add("Host", "localhost");
  for (const HttpHeaders::Field& field : headers) request.headers.add(field.name, field.value);
  return request;
}

int status(const Access& access, const HttpRequest& request, RequiredAccess need) {
  const auto refusal = access.refuse(request, need);
  return refusal ? refusal->status : 200;
}

constexpr const char* local = "[access]\nloopback_without_token = true\n";

TEST(Access, intake_and_reading_can_need_no_token_on_this_machine) {
  const Access access = an_access(local);
  EXPECT_EQ(status(access, a_request(true), RequiredAccess::send), 200);
  EXPECT_EQ(status(access, a_request(true), RequiredAccess::read), 200);
  EXPECT_EQ(status(access, a_request(true), RequiredAccess::operate), 401);
  EXPECT_EQ(status(access, a_request(false), RequiredAccess::send), 401);
  EXPECT_EQ(status(access, a_request(false), RequiredAccess::read), 401);
}

TEST(Access, probes_and_webhooks_need_none_anywhere) {
  const Access access = an_access();
  EXPECT_EQ(status(access, a_request(false), RequiredAccess::nothing), 200);
  EXPECT_EQ(status(access, a_request(false), RequiredAccess::signature), 200);
}

TEST(Access, a_token_gives_its_role) {
  const Access access = an_access();
  const HttpRequest request = a_request(false, {{"authorization", "bearer secret"}});
  EXPECT_EQ(status(access, request, RequiredAccess::read), 200);
  EXPECT_EQ(status(access, request, RequiredAccess::send), 403);
  EXPECT_EQ(status(access, request, RequiredAccess::operate), 403);
  EXPECT_EQ(access.actor(request), "ci");
  EXPECT_EQ(access.actor(a_request(false)), "");
}

TEST(Access, a_token_that_is_unknown_is_called_so_and_one_that_is_missing_asked_for) {
  const auto detail = [](std::initializer_list<HttpHeaders::Field> headers) {
    return an_access().refuse(a_request(true, headers), RequiredAccess::operate)->body;
  };
  EXPECT_NE(detail({{"Authorization", "Bearer wrong"}}).find("unknown token"), std::string::npos);
  for (const std::string& body : {detail({}), detail({{"Authorization", "Bearer "}}),
                                  detail({{"Authorization", "Basic x"}})}) {
    EXPECT_NE(body.find("Bearer … with a token of the role operate"), std::string::npos) << body;
  }
}

HttpRequest with_cookie(std::string method, std::initializer_list<HttpHeaders::Field> headers,
                        std::string cookie = "a=b; twinbox=" + a_session() + "; c=d") {
  HttpRequest request = a_request(false, headers);
  request.method = std::move(method);
  request.headers.add("Cookie", std::move(cookie));
  return request;
}

TEST(Access, a_cookie_counts_in_requests_of_its_own_page_only) {
  const Access access = an_access();
  EXPECT_EQ(status(access, with_cookie("GET", {}), RequiredAccess::read), 200);
  EXPECT_EQ(access.actor(with_cookie("GET", {})), "ci");
  EXPECT_EQ(
      status(access, with_cookie("GET", {{"Sec-Fetch-Site", "same-site"}}), RequiredAccess::read),
      401);
  EXPECT_EQ(status(access, with_cookie("POST", {}), RequiredAccess::read), 401);
  EXPECT_EQ(
      status(access, with_cookie("POST", {{"Origin", "http://localhost"}}), RequiredAccess::read),
      200);
  EXPECT_EQ(status(access, with_cookie("POST", {{"Sec-Fetch-Site", "same-origin"}}),
                   RequiredAccess::read),
            200);
  EXPECT_EQ(status(access, with_cookie("POST", {{"Origin", "http://localhost:81"}}),
                   RequiredAccess::read),
            403);
}

TEST(Access, a_cookie_of_that_name_exactly) {
  const Access access = an_access();
  const std::string id = a_session();
  for (const std::string& cookie :
       {"xtwinbox=" + id, std::string{"twinbox"}, std::string{"twinbox="}, "twinbox2=" + id,
        std::string{"twinbox=wrong"}, std::string{}, std::string{";"}, "a=twinbox=" + id,
        "__Host-twinbox=" + id}) {
    EXPECT_EQ(status(access, with_cookie("GET", {}, cookie), RequiredAccess::read), 401) << cookie;
  }
  EXPECT_EQ(status(access, with_cookie("GET", {}, "twinbox=" + id), RequiredAccess::read), 200);
}

TEST(Access, over_https_only_a_cookie_that_no_other_host_can_set_counts) {
  const std::string id = a_session();
  const HttpHeaders::Field https{"X-Forwarded-Proto", "https"};
  EXPECT_EQ(status(an_access(), with_cookie("GET", {https}, "twinbox=" + id), RequiredAccess::read),
            401);
  EXPECT_EQ(status(an_access(), with_cookie("GET", {https}, "__Host-twinbox=" + id),
                   RequiredAccess::read),
            200);
  const Access tls = an_access("[server]\ntls_certificate = \"c\"\ntls_key = \"k\"\n");
  EXPECT_EQ(status(tls, with_cookie("GET", {}, "twinbox=" + id), RequiredAccess::read), 401);
  EXPECT_EQ(status(tls, with_cookie("GET", {}, "__Host-twinbox=" + id), RequiredAccess::read), 200);
}

TEST(Access, a_session_is_no_token_and_a_token_no_session) {
  const Access access = an_access();
  const HttpRequest bearer = a_request(false, {{"Authorization", "Bearer " + a_session()}});
  EXPECT_EQ(status(access, bearer, RequiredAccess::read), 401);
  EXPECT_EQ(status(access, with_cookie("GET", {}, "twinbox=secret"), RequiredAccess::read), 401);
  EXPECT_FALSE(access.log_in(a_session()));
}

TEST(Access, a_session_ends_at_the_logout_of_its_own_page) {
  const Access access = an_access();
  const std::string cookie = "twinbox=" + a_session();
  EXPECT_FALSE(access.log_out(with_cookie("POST", {}, cookie)));
  EXPECT_FALSE(access.log_out(with_cookie("POST", {{"Sec-Fetch-Site", "same-site"}}, cookie)));
  EXPECT_EQ(status(access, with_cookie("GET", {}, cookie), RequiredAccess::read), 200);
  EXPECT_TRUE(access.log_out(with_cookie("POST", {{"Origin", "http://localhost"}}, cookie)));
  EXPECT_EQ(status(access, with_cookie("GET", {}, cookie), RequiredAccess::read), 401);
}

TEST(Access, a_session_is_worth_what_its_token_is_worth_now) {
  const HttpRequest request = with_cookie("GET", {});
  const Config config = load_config({}, {});
  const Access promoted{config, {{"ci", Role::operate, secret_hash}}, sessions};
  EXPECT_EQ(status(promoted, request, RequiredAccess::operate), 200);
  const Access revoked{config, {}, sessions};
  EXPECT_EQ(status(revoked, request, RequiredAccess::read), 401);
}

TEST(Access, a_cookie_that_is_none_of_its_tokens_takes_nothing_away) {
  HttpRequest request = a_request(true, {{"Cookie", "twinbox=of another port"}});
  EXPECT_EQ(status(an_access(local), request, RequiredAccess::read), 200);
  EXPECT_EQ(status(an_access(local), request, RequiredAccess::operate), 401);
}

TEST(Access, a_link_of_another_site_leads_to_the_page_and_to_nothing_else) {
  const Access access = an_access();
  HttpRequest request =
      a_request(true, {{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Dest", "document"}});
  request.target = "/";
  EXPECT_EQ(status(access, request, RequiredAccess::nothing), 200);
  request.target = "/v1/me";
  EXPECT_EQ(status(access, request, RequiredAccess::nothing), 403);
}

TEST(Access, this_machine_needs_a_token_unless_it_is_told_otherwise) {
  const Access access = an_access();
  EXPECT_FALSE(access.trusts_loopback());
  EXPECT_EQ(status(access, a_request(true), RequiredAccess::send), 401);
  EXPECT_EQ(status(access, a_request(true), RequiredAccess::read), 401);
}

TEST(Access, a_server_that_is_meant_for_others_trusts_nobody_for_being_here) {
  for (const char* server :
       {"hosts = [\"box.example\"]", "listen = \"0.0.0.0:7117\"", "listen = \"[::]:7117\"",
        "listen = \":7117\"", "listen = \"192.0.2.1:7117\"",
        "tls_certificate = \"c\"\ntls_key = \"k\""}) {
    const Access access = an_access(std::string{local} + "[server]\n" + server + "\n");
    EXPECT_FALSE(access.trusts_loopback()) << server;
    EXPECT_EQ(status(access, a_request(true), RequiredAccess::send), 401) << server;
    EXPECT_EQ(status(access, a_request(true), RequiredAccess::read), 401) << server;
    EXPECT_EQ(status(access, a_request(true), RequiredAccess::nothing), 200) << server;
  }
  for (const char* listen : {"127.0.0.1:7117", "localhost:0", "[::1]:7117", "127.0.0.2:1"}) {
    const Access access = an_access(std::string{local} + "[server]\nlisten = \"" + listen + "\"\n");
    EXPECT_EQ(status(access, a_request(true), RequiredAccess::send), 200) << listen;
  }
}

TEST(Access, an_address_is_no_name_that_others_can_make_point_here) {
  const Access access = an_access("[server]\nhosts = [\"box.example\"]\n");
  for (const char* host : {"localhost", "192.0.2.7:80", "[2001:db8::1]", "box.example"}) {
    HttpRequest request{.method = "GET"};
    request.headers.add("Host", host);
    EXPECT_EQ(status(access, request, RequiredAccess::nothing), 200) << host;
  }
  for (const char* host : {"example.org", "1.2.3", "box.example.org", "", "[", ":80"}) {
    HttpRequest request{.method = "GET"};
    request.headers.add("Host", host);
    EXPECT_EQ(status(access, request, RequiredAccess::nothing), 421) << host;
  }
}

TEST(Access, a_page_on_another_port_of_a_named_host_is_foreign) {
  const Access access = an_access("[server]\nhosts = [\"box.example\"]\n");
  const auto post = [&](std::string host, std::string origin) {
    HttpRequest request{.method = "POST"};
    request.headers.add("Host", std::move(host));
    request.headers.add("Origin", std::move(origin));
    request.headers.add("Cookie", "twinbox=" + a_session());
    return status(access, request, RequiredAccess::read);
  };
  EXPECT_EQ(post("box.example:7117", "http://box.example:8080"), 403);
  EXPECT_EQ(post("box.example:7117", "http://box.example"), 403);
  EXPECT_EQ(post("box.example", "http://box.example:8080"), 403);
  EXPECT_EQ(post("box.example:7117", "http://localhost:7117"), 403);
  EXPECT_EQ(post("box.example:7117", "http://BOX.example:7117"), 200);
  EXPECT_EQ(post("box.example", "http://box.example"), 200);
  EXPECT_EQ(post("box.example:80", "http://box.example"), 200);
  EXPECT_EQ(post("box.example:443", "https://box.example"), 200);
}

TEST(Access, a_page_that_came_without_https_is_foreign_where_https_is_spoken) {
  const HttpHeaders::Field https{"X-Forwarded-Proto", "https"};
  const auto post = [&](const char* origin) {
    return status(an_access(),
                  with_cookie("POST", {https, {"Origin", origin}}, "__Host-twinbox=" + a_session()),
                  RequiredAccess::read);
  };
  EXPECT_EQ(post("http://localhost"), 403);
  EXPECT_EQ(post("https://localhost"), 200);
}

class TokenFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("twinbox_tokens_" + std::to_string(getpid()));
  const std::filesystem::path file_ = folder_ / "tokens";
};

TEST_F(TokenFile, a_token_that_was_made_is_recognised_and_not_kept) {
  const std::string token = make_token(file_, "first", Role::admin);
  const Access access{load_config({}, {}), read_tokens(file_), sessions};
  EXPECT_EQ(access.actor(a_request(false, {{"Authorization", "Bearer " + token}})), "first");
  std::ifstream stream{file_};
  const std::string text{std::istreambuf_iterator<char>{stream}, {}};
  EXPECT_EQ(text.find(token), std::string::npos);
  EXPECT_NE(make_token(file_, "second", Role::read), token);
  EXPECT_EQ(read_tokens(file_).size(), 2u);
}

TEST_F(TokenFile, a_name_stands_for_one_token) {
  make_token(file_, "ci", Role::send);
  EXPECT_THROW(make_token(file_, "ci", Role::admin), std::runtime_error);
  for (const char* name : {"", "-", "a b", "a#", "#", "a\nb admin", "\xc3\xa9", "_a"}) {
    EXPECT_THROW(make_token(file_, name, Role::send), std::invalid_argument) << name;
  }
  EXPECT_EQ(read_tokens(file_).size(), 1u);
}

TEST_F(TokenFile, one_that_is_revoked_leaves_the_rest_as_it_is) {
  std::ofstream{file_} << "# ours\nci send " << secret_hash << " # of Anna\nci2 read "
                       << secret_hash;
  std::filesystem::permissions(file_, std::filesystem::perms{0640});
  make_token(file_, "new", Role::admin);
  EXPECT_EQ(read_tokens(file_).size(), 3u);
  EXPECT_EQ(revoke_token(file_, "nobody"), 0u);
  EXPECT_EQ(revoke_token(file_, "ci"), 1u);
  EXPECT_EQ(revoke_token(file_, "new"), 1u);
  std::ifstream stream{file_};
  const std::string text{std::istreambuf_iterator<char>{stream}, {}};
  EXPECT_EQ(text, std::string{"# ours\nci2 read "} + secret_hash + "\n");
  EXPECT_EQ(std::filesystem::status(file_).permissions(), std::filesystem::perms{0640});
}

TEST_F(TokenFile, a_new_one_is_for_its_owner_alone) {
  make_token(file_, "ci", Role::send);
  EXPECT_EQ(std::filesystem::status(file_).permissions(), std::filesystem::perms{0600});
}

TEST_F(TokenFile, a_file_that_is_not_there_holds_none) { EXPECT_TRUE(read_tokens(file_).empty()); }

TEST_F(TokenFile, one_that_is_there_and_cannot_be_read_is_named) {
  std::filesystem::create_directory(file_);
  try {
    read_tokens(file_);
    FAIL() << "was read";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find(file_.string() + " cannot be read"), std::string::npos)
        << error.what();
  }
}

TEST_F(TokenFile, a_line_that_is_none_is_named) {
  std::ofstream{file_} << "# comment\n\nci read " << secret_hash << "\nbad boss " << secret_hash
                       << "\n";
  try {
    read_tokens(file_);
    FAIL() << "was read";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find("tokens:4: "), std::string::npos) << error.what();
  }
}

TEST(TokenFileLocation, is_beside_the_first_file_of_sqlite) {
  EXPECT_EQ(token_file(load_config({}, {})), "twinbox.tokens");
  EXPECT_EQ(token_file(parse_config("[store.a]\nurl = \"sqlite:/var/lib/x/a.db\"\n", "t", {})),
            "/var/lib/x/twinbox.tokens");
  EXPECT_EQ(token_file(parse_config("[access]\ntoken_file = \"/etc/tokens\"\n", "t", {})),
            "/etc/tokens");
}

}  // namespace
}  // namespace twinbox::app
