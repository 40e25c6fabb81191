// SPDX-License-Identifier: Apache-2.0
#include "engine/tokenizer_from_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../tests/gguf_writer.h"
#include "text/test_vocabularies.h"

namespace ridge {
namespace {

using testing::HasSubstr;

Result<std::unique_ptr<const Tokenizer>> tokenizer_of(const TokenizerSpec& spec,
                                                      std::string_view pre_override) {
  const bool is_bpe = spec.model == TokenizerModel::bpe;
  GgufWriter w;
  w.set("tokenizer.ggml.model", is_bpe ? "gpt2" : "llama");
  w.set_array("tokenizer.ggml.tokens", spec.tokens);
  std::vector<int32_t> kinds;
  for (TokenKind kind : spec.kinds) kinds.push_back(static_cast<int32_t>(kind));
  w.set_array("tokenizer.ggml.token_type", kinds);
  if (is_bpe) {
    w.set("tokenizer.ggml.pre", "unheard-of").set_array("tokenizer.ggml.merges", spec.merges);
  } else {
    w.set_array("tokenizer.ggml.scores", spec.scores);
    w.set("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(spec.unknown));
    w.set("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(spec.bos));
    w.set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(spec.eos));
  }
  const std::string content = w.build();
  const auto file = GgufFile::parse(std::as_bytes(std::span<const char>(content)), "m.gguf");
  if (!file) return file.error();
  return tokenizer_from_gguf(*file, pre_override);
}

TEST(TokenizerFromGguf, an_override_takes_the_place_of_a_name_that_is_unknown) {
  const TokenizerSpec spec = testing_text::byte_bpe({{"a", "b"}});
  const auto refused = tokenizer_of(spec, "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_supported);
  EXPECT_THAT(refused.error().message, HasSubstr("m.gguf"));
  EXPECT_THAT(refused.error().message, HasSubstr("'unheard-of'"));
  const auto made = tokenizer_of(spec, "qwen2");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ((*made)->spec().pre, "qwen2");
}

TEST(TokenizerFromGguf, an_override_that_is_no_name_is_the_flags_fault_and_not_the_files) {
  const auto refused = tokenizer_of(testing_text::byte_bpe(), "gpt-3\n");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::usage);
  EXPECT_THAT(refused.error().message, testing::StartsWith("--pre is 'gpt-3"));
  EXPECT_THAT(refused.error().message, HasSubstr("expected one of: "));
  for (std::string_view name : known_pre_tokenizers())
    EXPECT_THAT(refused.error().message, HasSubstr(std::string(name)));
}

TEST(TokenizerFromGguf, spm_has_no_pre_tokeniser_to_override) {
  const TokenizerSpec spec = testing_text::byte_spm();
  const auto made = tokenizer_of(spec, "");
  ASSERT_TRUE(made) << made.error().message;
  for (const char* name : {"gpt-2", "nonsense"}) {
    const auto refused = tokenizer_of(spec, name);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::usage);
    EXPECT_THAT(refused.error().message, HasSubstr("this model's tokenizer is SPM: it has no "
                                                   "pre-tokeniser to override"));
  }
}

}  // namespace
}  // namespace ridge
