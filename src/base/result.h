// Result<T>: a value or an Error, with the method names of std::expected. Bad input travels up as
// an Error (what was expected, what was found, where); no exception of ours exists.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace ridge {

enum class ErrorCode {
  invalid_input,  // a file or text that we were given is wrong: exit code 1
  usage,          // a flag or parameter is wrong: exit code 2
  not_supported,  // well-formed, and this build cannot do it: exit code 1
  io,             // the operating system refused: exit code 1
};

struct Error {
  ErrorCode code = ErrorCode::invalid_input;
  std::string message;  // one sentence: what was expected, what was found, where
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & {
    CHECK(has_value());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(has_value());
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(has_value());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const {
    CHECK(!has_value());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Error& error() const {
    CHECK(error_.has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace ridge

#define RIDGE_CONCAT_INNER(a, b) a##b
#define RIDGE_CONCAT(a, b) RIDGE_CONCAT_INNER(a, b)

// Returns the error of `expression` from the enclosing function, if it has one.
#define RIDGE_RETURN_IF_ERROR(expression)                                                         \
  do {                                                                                            \
    if (auto ridge_status = (expression); !ridge_status.has_value()) return ridge_status.error(); \
  } while (0)

// RIDGE_TRY(auto x, f()): x is f()'s value, or the enclosing function returns f()'s error.
#define RIDGE_TRY(declaration, expression) \
  RIDGE_TRY_INNER(declaration, expression, RIDGE_CONCAT(ridge_result_, __LINE__))
#define RIDGE_TRY_INNER(declaration, expression, result) \
  auto result = (expression);                            \
  if (!result.has_value()) return result.error();        \
  declaration = std::move(result).value()
