// What a row answers for null and for columns that it lacks, the same in every session.
#pragma once

#include <stdexcept>

#include <gtest/gtest.h>

#include <twinbox/session.hpp>

namespace twinbox::test {

/// `columns` columns, all of them null.
inline void expect_nulls(const Row& row, int columns) {
  for (int column = 0; column < columns; ++column) {
    EXPECT_TRUE(row.is_null(column));
    EXPECT_EQ(row.integer(column), 0);
    EXPECT_EQ(row.real(column), 0.0);
    EXPECT_FALSE(row.boolean(column));
    EXPECT_EQ(row.text(column), "");
    EXPECT_EQ(row.bytes(column), "");
    EXPECT_EQ(row.instant(column), Instant{});
    EXPECT_EQ(row.uuid(column), Uuid{});
  }
  for (const int column : {-1, columns}) {
    EXPECT_THROW(static_cast<void>(row.is_null(column)), std::out_of_range);
    EXPECT_THROW(static_cast<void>(row.integer(column)), std::out_of_range);
    EXPECT_THROW(static_cast<void>(row.real(column)), std::out_of_range);
    EXPECT_THROW(static_cast<void>(row.boolean(column)), std::out_of_range);
    EXPECT_THROW(static_cast<void>(row.text(column)), std::out_of_range);
    EXPECT_THROW(static_cast<void>(row.bytes(column)), std::out_of_range);
    EXPECT_THROW(static_cast<void>(row.instant(column)), std::out_of_range);
    EXPECT_THROW(static_cast<void>(row.uuid(column)), std::out_of_range);
  }
}

}  // namespace twinbox::test
