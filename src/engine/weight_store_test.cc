// SPDX-License-Identifier: Apache-2.0
#include "engine/weight_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>

#include "../../tests/test_session.h"
#include "tensor/codec.h"

namespace ridge {
namespace {

using testing::HasSubstr;

constexpr const char* kTiny[] = {"llama", "llama-linear", "llama-llama3",  "llama-k",
                                 "qwen2", "qwen3",        "gemma3-scaled", "gemma3"};

TEST(WeightStore, every_weight_of_every_dtype_is_the_number_in_the_file) {
  for (const std::string model : kTiny) {
    const auto file = GgufFile::open(tiny_path(model + ".gguf"));
    ASSERT_TRUE(file.has_value()) << file.error().message;
    const TestModel m(tiny_path(model + ".gguf"));
    for (const GgufTensor& tensor : file->tensors()) {
      const bool is_matrix = tensor.shape.size() > 1;
      const TensorView& w = tensor.view;
      const auto cols = static_cast<size_t>(w.cols);
      std::vector<float> expected(cols), got(cols);
      for (int64_t r = 0; r < w.rows; ++r) {
        decode(w.dtype, w.row(r), w.cols, expected.data());
        if (is_matrix)
          unpack_row(m.model->weights().matrix(tensor.name), r, got.data());
        else
          got.assign(m.model->weights().vector(tensor.name),
                     m.model->weights().vector(tensor.name) + cols);
        ASSERT_EQ(std::memcmp(got.data(), expected.data(), cols * sizeof(float)), 0)
            << model << " " << tensor.name << " row " << r;
      }
    }
  }
}

TEST(WeightStore, progress_grows_to_the_total_whatever_the_number_of_threads) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    int64_t last = 0, end = 0;
    const auto model =
        Model::load(tiny_path("llama.gguf"), {}, pool, [&](int64_t done, int64_t total) {
          EXPECT_GT(done, last);
          last = done;
          end = total;
        });
    ASSERT_TRUE(model.has_value());
    EXPECT_EQ(last, end);
    int64_t in_file = 0;
    for (const Weight& w : weights_of((*model)->program())) in_file += w.bytes();
    EXPECT_EQ(end, in_file);
  }
}

// The tiny llama with bytes of one tensor changed, in a file of its own.
class SpoiltModel {
 public:
  SpoiltModel() : path_(testing::TempDir() + "spoilt_" + std::to_string(::getpid()) + ".gguf") {
    std::ifstream in(tiny_path("llama.gguf"), std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
  }
  ~SpoiltModel() { std::remove(path_.c_str()); }

  // Calls change(start of the tensor's data, its bytes).
  template <class Change>
  const std::string& spoil(const std::string& tensor, Change&& change) {
    const auto file = GgufFile::parse(std::as_bytes(std::span(bytes_)), "spoilt");
    CHECK(file.has_value());
    const GgufTensor* t = file->find(tensor);
    CHECK(t != nullptr);
    const auto offset = t->view.data - reinterpret_cast<const std::byte*>(bytes_.data());
    change(bytes_.data() + offset, t->view.bytes());
    std::ofstream(path_, std::ios::binary) << bytes_;
    return path_;
  }

 private:
  std::string path_, bytes_;
};

std::string load_error(const std::string& path) {
  ThreadPool pool(2);
  const auto model = Model::load(path, {}, pool, {});
  return model ? "accepted" : model.error().message;
}

TEST(WeightStore, a_nan_or_infinity_anywhere_is_refused_by_the_tensors_name) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const bool at_end : {false, true}) {
      SpoiltModel norm;
      EXPECT_THAT(load_error(norm.spoil("blk.1.ffn_norm.weight",
                                        [&](char* data, int64_t bytes) {
                                          std::memcpy(data + (at_end ? bytes - 4 : 0), &bad, 4);
                                        })),
                  HasSubstr("blk.1.ffn_norm.weight"));
    }
  }
  for (const uint16_t bad : {uint16_t{0x7c00}, uint16_t{0xfe01}}) {  // f16: infinity, a NaN
    SpoiltModel matrix;
    EXPECT_THAT(load_error(matrix.spoil("blk.2.attn_q.weight",
                                        [&](char* data, int64_t) { std::memcpy(data, &bad, 2); })),
                HasSubstr("blk.2.attn_q.weight"));
  }
}

// Finite weights can still overflow on the way: then there is an error, never text.
TEST(WeightStore, weights_that_overflow_at_run_time_end_in_an_error) {
  SpoiltModel spoilt;
  const std::string path = spoilt.spoil("output_norm.weight", [](char* data, int64_t bytes) {
    const float huge = 3e38f;
    for (int64_t at = 0; at < bytes; at += 4) std::memcpy(data + at, &huge, 4);
  });
  for (const bool exact : {false, true}) {
    TestModel m(path, {.exact = exact});
    const auto session = m.session({.isa = test_isa(), .context = 64});
    std::string shown;
    const std::atomic<bool> never{false};
    const TokenId prompt[] = {5, 6, 7};
    const auto out = session->generate(
        prompt, greedy_options(4), [&](const std::string& text) { shown += text; }, never);
    ASSERT_FALSE(out.has_value()) << "exact: " << exact;
    EXPECT_THAT(out.error().message, HasSubstr("not finite"));
    EXPECT_THAT(out.error().message, HasSubstr("position 2"));
    EXPECT_EQ(shown, "");
  }
}

// In the middle of the model, in an int8 product's input.
TEST(WeightStore, an_overflow_inside_the_model_is_not_lost_on_the_way_to_the_logits) {
  SpoiltModel spoilt;
  const std::string path = spoilt.spoil("blk.1.ffn_norm.weight", [](char* data, int64_t bytes) {
    const float huge = 3e38f;
    for (int64_t at = 0; at < bytes; at += 4) std::memcpy(data + at, &huge, 4);
  });
  for (const bool exact : {false, true}) {
    TestModel m(path, {.exact = exact});
    const auto session = m.session({.isa = test_isa(), .context = 64});
    const TokenId prompt[] = {5, 6, 7};
    EXPECT_FALSE(generate(*session, prompt, greedy_options(4)).has_value()) << "exact: " << exact;
  }
}

}  // namespace
}  // namespace ridge
