#include "transport/http/address.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace twinbox {
namespace {

struct Case {
  const char* address;
  std::string_view expected;  ///< empty: public
};

constexpr Case cases[] = {
    {"0.0.0.0", "unspecified"},
    {"0.1.2.3", "unspecified"},
    {"10.0.0.1", "private"},
    {"10.255.255.255", "private"},
    {"9.255.255.255", ""},
    {"11.0.0.0", ""},
    {"100.63.255.255", ""},
    {"100.64.0.1", "private"},
    {"100.127.255.255", "private"},
    {"100.128.0.0", ""},
    {"127.0.0.1", "loopback"},
    {"127.255.255.254", "loopback"},
    {"128.0.0.1", ""},
    {"169.254.169.254", "link-local"},
    {"169.255.0.1", ""},
    {"172.15.255.255", ""},
    {"172.16.0.1", "private"},
    {"172.31.255.255", "private"},
    {"172.32.0.0", ""},
    {"192.0.0.1", "reserved"},
    {"192.0.2.7", "reserved"},
    {"192.88.98.255", ""},
    {"192.88.99.1", "reserved"},
    {"192.88.100.0", ""},
    {"192.168.1.1", "private"},
    {"192.169.0.1", ""},
    {"198.18.0.1", "private"},
    {"198.20.0.1", ""},
    {"198.51.100.1", "reserved"},
    {"203.0.113.1", "reserved"},
    {"224.0.0.1", "multicast"},
    {"239.255.255.255", "multicast"},
    {"240.0.0.1", "reserved"},
    {"255.255.255.255", "reserved"},
    {"1.1.1.1", ""},
    {"93.184.216.34", ""},
    {"::", "unspecified"},
    {"::1", "loopback"},
    {"::2", "unspecified"},  // carries 0.0.0.2
    {"::127.0.0.1", "loopback"},
    {"::93.184.216.34", ""},
    {"::ffff:127.0.0.1", "loopback"},
    {"::ffff:10.1.2.3", "private"},
    {"::ffff:169.254.169.254", "link-local"},
    {"::ffff:93.184.216.34", ""},
    {"::ffff:0:93.184.216.34", "reserved"},
    {"::ffff:0:127.0.0.1", "reserved"},
    {"::fffe:0:0:1", ""},
    {"64:ff9b::127.0.0.1", "loopback"},
    {"64:ff9b::93.184.216.34", ""},
    {"64:ff9b:1::1", "private"},
    {"64:ff9b:1:ffff::93.184.216.34", "private"},
    {"64:ff9b::192.88.99.1", "reserved"},
    {"64:ff9b::169.254.169.254", "link-local"},
    {"100::1", "reserved"},
    {"100:0:0:1::1", "reserved"},
    {"100:0:0:2::1", ""},
    {"2001::1", "reserved"},
    {"2001:0:4136:e378:8000:63bf:80ff:fffe", "reserved"},  // Teredo, carries 127.0.0.1
    {"2001:1ff:ffff::1", "reserved"},
    {"2001:200::1", ""},
    {"2001:db8::1", "reserved"},
    {"2001:4860:4860::8888", ""},
    {"2002:7f00:1::", "loopback"},  // carries 127.0.0.1
    {"2002:a00:1::1", "private"},
    {"2002:5db8:d822::1", ""},
    {"2002:c058:6301::1", "reserved"},  // carries 192.88.99.1
    {"2606:4700::1111", ""},
    {"3fff::1", "reserved"},
    {"3fff:fff:ffff::1", "reserved"},
    {"3fff:1000::1", ""},
    {"5eff::1", ""},
    {"5f00::1", "reserved"},
    {"5f01::1", ""},
    {"fc00::1", "private"},
    {"fd12:3456::1", "private"},
    {"fe80::1", "link-local"},
    {"febf::1", "link-local"},
    {"fec0::1", "private"},
    {"ff02::1", "multicast"},
};

TEST(PublicAddress, is_told_from_all_others) {
  for (const Case& one : cases) {
    const auto address = IpAddress::parse(one.address);
    ASSERT_TRUE(address) << one.address;
    EXPECT_EQ(non_public_reason(*address), one.expected) << one.address;
    EXPECT_EQ(AddressFilter{{}}.refusal(*address), one.expected) << one.address;
    EXPECT_EQ(AddressFilter{{"any"}}.refusal(*address), "") << one.address;
  }
}

TEST(PublicAddress, is_no_name_and_no_other_spelling) {
  for (const char* text : {"", "localhost", "127.1", "0x7f.0.0.1", "1.2.3", "1.2.3.4.5", "::g",
                           "fe80::1%eth0", " 1.2.3.4", "1.2.3.256"}) {
    EXPECT_FALSE(IpAddress::parse(text)) << text;
  }
}

TEST(PublicAddress, shows_as_it_is_written) {
  for (const char* text : {"127.0.0.1", "2001:db8::1", "::1"}) {
    EXPECT_EQ(IpAddress::parse(text)->str(), text);
  }
  EXPECT_EQ(IpAddress::parse("::ffff:10.1.2.3")->str(), "10.1.2.3");
}

TEST(AllowedNetworks, let_through_what_they_name_and_nothing_else) {
  const AddressFilter rules{{"10.1.0.0/16", "127.0.0.1", "fd00::/9"}};
  const auto refusal = [&](const char* text) { return rules.refusal(*IpAddress::parse(text)); };
  EXPECT_EQ(refusal("10.1.255.255"), "");
  EXPECT_EQ(refusal("::ffff:10.1.0.1"), "");
  EXPECT_EQ(refusal("10.2.0.0"), "private");
  EXPECT_EQ(refusal("127.0.0.1"), "");
  EXPECT_EQ(refusal("127.0.0.2"), "loopback");
  EXPECT_EQ(refusal("::1"), "loopback");
  EXPECT_EQ(refusal("fd7f::1"), "");
  EXPECT_EQ(refusal("fd80::1"), "private");
  EXPECT_EQ(AddressFilter{{"::/0"}}.refusal(*IpAddress::parse("127.0.0.1")), "");
  EXPECT_EQ(AddressFilter{{"0.0.0.0/0"}}.refusal(*IpAddress::parse("127.0.0.1")), "");
  EXPECT_EQ(AddressFilter{{"0.0.0.0/0"}}.refusal(*IpAddress::parse("::1")), "loopback");
}

TEST(AllowedNetworks, refuse_what_is_none_with_an_example) {
  for (const char* text : {"", "localhost", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/",
                           "10.0.0.0/8x", "::/129", "all"}) {
    try {
      AddressFilter rules{{text}};
      ADD_FAILURE() << text << " was taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string{error.what()}.find("10.0.0.0/8"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace twinbox
