#include <gtest/gtest.h>

#include "core/encoding.hpp"
#include "crypto/ed25519.hpp"
#include "crypto/hmac.hpp"

namespace twinbox {
namespace {

std::string bytes(std::string_view digits) { return decode_hex(digits).value(); }

// RFC 4648, section 10.
TEST(Encoding, base64_of_the_standard_s_vectors) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : vectors) {
    EXPECT_EQ(base64(plain), encoded);
    EXPECT_EQ(decode_base64(encoded), plain);
  }
}

TEST(Encoding, base64url_has_its_own_alphabet_and_no_padding) {
  EXPECT_EQ(base64url("\xfb\xff\xfe!"), "-__-IQ");
  EXPECT_EQ(decode_base64url("-__-IQ"), "\xfb\xff\xfe!");
  EXPECT_EQ(base64("\xfb\xff\xfe!"), "+//+IQ==");
  EXPECT_FALSE(decode_base64url("-__-IQ=="));
  EXPECT_FALSE(decode_base64url("+//+IQ"));
  EXPECT_FALSE(decode_base64("-__-IQ=="));
}

TEST(Encoding, base64_has_one_spelling_only) {
  for (const char* text : {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z", "Zm9v\n", " Zm9",
                           "====", "Zg==Zg==", "=Zg=", "Zm9v="}) {
    EXPECT_FALSE(decode_base64(text)) << text;
  }
  EXPECT_FALSE(decode_base64url("Zh"));
  EXPECT_FALSE(decode_base64url("Z"));
}

TEST(Encoding, every_byte_survives) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
    EXPECT_EQ(decode_base64(base64(all)), all);
    EXPECT_EQ(decode_base64url(base64url(all)), all);
    EXPECT_EQ(decode_hex(hex(all)), all);
  }
}

TEST(Encoding, hex_is_written_small_and_read_both_ways) {
  EXPECT_EQ(hex("\x01\xab"), "01ab");
  EXPECT_EQ(decode_hex("01AB"), "\x01\xab");
  EXPECT_FALSE(decode_hex("1"));
  EXPECT_FALSE(decode_hex("0g"));
  EXPECT_FALSE(decode_hex("0x"));
}

// RFC 2202 case 2 and RFC 4231 cases 2 and 6 (a key longer than a block).
TEST(Hmac, computes_the_published_vectors) {
  const std::string_view data = "what do ya want for nothing?";
  EXPECT_EQ(hex(hmac(HashFunction::sha1, "Jefe", data)),
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
  EXPECT_EQ(hex(hmac(HashFunction::sha256, "Jefe", data)),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac(HashFunction::sha512, "Jefe", data)),
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
            "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737");
  EXPECT_EQ(hex(hmac(HashFunction::sha256, std::string(131, '\xaa'),
                     "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hex(hmac(HashFunction::sha256, {}, {})),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Hmac, compares_without_telling_where_it_differs) {
  EXPECT_TRUE(constant_time_equal("", ""));
  EXPECT_TRUE(constant_time_equal("secret", "secret"));
  EXPECT_FALSE(constant_time_equal("secret", "Secret"));
  EXPECT_FALSE(constant_time_equal("secret", "secre"));
}

TEST(RandomBytes, are_as_many_as_asked_for_and_differ) {
  EXPECT_EQ(random_bytes(0), "");
  EXPECT_EQ(random_bytes(32).size(), 32u);
  EXPECT_NE(random_bytes(32), random_bytes(32));
}

// RFC 8032, section 7.1, tests 1 and 3.
TEST(Ed25519, signs_and_verifies_the_published_vectors) {
  struct Vector {
    const char *seed, *key, *data, *signature;
  };
  const Vector vectors[] = {
      {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
       "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
       "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf"
       "9"
       "b46bd25bf5f0595bbe24655141438e7a100b"},
      {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
       "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
       "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984"
       "d"
       "c6594a7c15e9716ed28dc027beceea1ec40a"}};
  for (const Vector& vector : vectors) {
    EXPECT_EQ(hex(ed25519_public_key(bytes(vector.seed))), vector.key);
    EXPECT_EQ(hex(ed25519_sign(bytes(vector.seed), bytes(vector.data))), vector.signature);
    EXPECT_TRUE(ed25519_verify(bytes(vector.key), bytes(vector.data), bytes(vector.signature)));
    EXPECT_FALSE(ed25519_verify(bytes(vector.key), "other", bytes(vector.signature)));
    EXPECT_FALSE(ed25519_verify(bytes(vector.key), bytes(vector.data), "short"));
  }
}

TEST(Ed25519, refuses_a_key_of_another_length) {
  EXPECT_THROW(ed25519_sign("short", "x"), std::invalid_argument);
  EXPECT_THROW(ed25519_verify("short", "x", std::string(64, 'x')), std::invalid_argument);
}

}  // namespace
}  // namespace twinbox
