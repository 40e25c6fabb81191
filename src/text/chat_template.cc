// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <algorithm>
#include <iterator>

namespace ridge {
namespace {

// SmolLM2-Instruct (135M, 360M and 1.7B): tokenizer.chat_template of their GGUF files.
constexpr std::string_view kSmolLm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
    "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}";

class SpanWriter {
 public:
  void by_template(std::string_view text) { add(text, false); }
  void by_user(std::string_view text) { add(text, true); }
  std::vector<ChatSpan> take() { return std::move(spans_); }

 private:
  void add(std::string_view text, bool from_user) {
    if (text.empty()) return;
    if (spans_.empty() || spans_.back().from_user != from_user) spans_.push_back({{}, from_user});
    spans_.back().text += text;
  }
  std::vector<ChatSpan> spans_;
};

bool is_known_role(std::string_view role) {
  return role == "system" || role == "user" || role == "assistant";
}

std::vector<ChatSpan> render_smollm2(const std::vector<ChatMessage>& messages,
                                     bool add_generation_prompt) {
  SpanWriter out;
  if (!messages.empty() && messages[0].role != "system") {
    out.by_template(
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
        "Face<|im_end|>\n");
  }
  for (const ChatMessage& message : messages) {
    out.by_template("<|im_start|>");
    // A role that is not one of ours came from outside as well.
    is_known_role(message.role) ? out.by_template(message.role) : out.by_user(message.role);
    out.by_template("\n");
    out.by_user(message.content);
    out.by_template("<|im_end|>\n");
  }
  if (add_generation_prompt) out.by_template("<|im_start|>assistant\n");
  return out.take();
}

}  // namespace

Result<ChatTemplate> ChatTemplate::create(std::string_view source) {
  struct Known {
    std::string_view source;
    Renderer render;
  };
  static constexpr Known kKnown[] = {{kSmolLm2, render_smollm2}};
  for (const Known& known : kKnown) {
    if (known.source == source) return ChatTemplate(known.render);
  }
  if (source.empty()) {
    return Error{ErrorCode::not_supported,
                 "the model has no chat template (tokenizer.chat_template), so it was not trained "
                 "to chat; run it on plain text with --raw"};
  }
  return Error{ErrorCode::not_supported,
               "the model's chat template (tokenizer.chat_template) is not one of those that this "
               "build can render; run the model on plain text with --raw"};
}

std::vector<ChatSpan> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                           bool add_generation_prompt) const {
  return renderer_(messages, add_generation_prompt);
}

}  // namespace ridge
