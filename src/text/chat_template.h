// Chat templates: messages to the text a model was trained on. A template is known here by its
// exact source text; one that is not known is refused (the full Jinja engine is a later step).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ridge {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// A run of rendered text. Text from the template may spell control tokens; text from a user may
// not (it is tokenised with parse_special = false).
struct ChatSpan {
  std::string text;
  bool from_user = false;
};

class ChatTemplate {
 public:
  // `source`: tokenizer.chat_template. Error: not_supported, naming --raw as the way on.
  static Result<ChatTemplate> create(std::string_view source);

  std::vector<ChatSpan> render(const std::vector<ChatMessage>& messages,
                               bool add_generation_prompt) const;

 private:
  using Renderer = std::vector<ChatSpan> (*)(const std::vector<ChatMessage>&, bool);
  explicit ChatTemplate(Renderer renderer) : renderer_(renderer) {}
  Renderer renderer_;
};

}  // namespace ridge
