// SPDX-License-Identifier: Apache-2.0
#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/clock.h"
#include "text/stop_filter.h"
#include "text/utf8_stream.h"

namespace ridge {

namespace {

bool all_finite(const float* x, int64_t n) {
  // Infinity and NaN times zero is NaN, and a sum keeps it.
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * 0.0f;
  return sum == 0;
}

// Generated tokens to text: pieces to whole characters to text without stop strings.
class TextAssembler {
 public:
  TextAssembler(const Tokenizer& tokenizer, std::vector<std::string> stops,
                const std::function<void(const std::string&)>& on_text)
      : tokenizer_(tokenizer), filter_(std::move(stops)), on_text_(on_text) {}
  void push(TokenId token) { show(filter_.push(stream_.push(tokenizer_.piece(token)))); }
  std::string finish() {
    show(filter_.push(stream_.finish()));
    show(filter_.finish());
    return std::move(text_);
  }
  bool stopped() const { return filter_.stopped(); }

 private:
  void show(const std::string& text) {
    if (text.empty()) return;
    text_ += text;
    if (on_text_) on_text_(text);
  }
  const Tokenizer& tokenizer_;
  Utf8Stream stream_;
  StopFilter filter_;
  const std::function<void(const std::string&)>& on_text_;
  std::string text_;
};

// FNV-1a over the words of `n` numbers, going on from `hash` (0: begin).
uint64_t hash_on(uint64_t hash, const float* numbers, int64_t n) {
  if (hash == 0) hash = 0xcbf29ce484222325;
  for (int64_t i = 0; i < n; ++i)
    hash = (hash ^ std::bit_cast<uint32_t>(numbers[i])) * 0x100000001b3;
  return hash;
}

}  // namespace

Executor::Options executor_options(const Model& model, const SessionOptions& o) {
  return {.limits = {.max_rows = o.prefill_chunk,
                     .max_sequences = 1,
                     .max_logit_rows = o.max_logit_rows,
                     .max_context = o.context,
                     .threads = std::max(o.prefill_threads, o.decode_threads)},
          .isa = o.isa,
          .exact = model.exact()};
}

const char* name_of(FinishReason reason) {
  static constexpr const char* kNames[] = {"stop", "length", "cancelled"};
  return kNames[static_cast<size_t>(reason)];
}

Session::Session(const Model& model, ThreadPool& pool, Book& book, const SessionOptions& options)
    : model_(model),
      book_(book),
      options_(options),
      kv_(model.spec(), kv_pages_for(options.context)),
      pages_(kv_.pool(), options.context),
      executor_(model.fused(), model.weights(), kv_, pool, executor_options(model, options)),
      batch_(options.prefill_chunk, 1) {
  tokens_.reserve(static_cast<size_t>(options.context) + 1);
}

Status Session::check_room(int64_t n) const {
  const int64_t length = static_cast<int64_t>(tokens_.size()) + n;
  if (cached_ == length)
    return Error{ErrorCode::invalid_input, "the prompt is empty: there is no token to begin with"};
  if (length > options_.context)
    return Error{ErrorCode::invalid_input,
                 fmt::format("the prompt has {} tokens and the context holds {}: shorten it or "
                             "raise --ctx",
                             length, options_.context)};
  return {};
}

Status Session::check_bytes(size_t text_bytes) const {
  size_t longest = 1;
  for (const std::string& token : model_.tokenizer().spec().tokens)
    longest = std::max(longest, token.size());
  if (text_bytes / longest <= static_cast<size_t>(options_.context)) return {};
  return Error{ErrorCode::invalid_input,
               fmt::format("the prompt has {} bytes, and no token more than {}: it cannot fit into "
                           "a context of {}; shorten it or raise --ctx",
                           text_bytes, longest, options_.context)};
}

void Session::truncate(int64_t length) {
  if (length >= static_cast<int64_t>(tokens_.size())) return;
  tokens_.resize(static_cast<size_t>(length));
  cached_ = std::min(cached_, length);
  pages_.truncate(cached_);
}

Result<float*> Session::step(int64_t n, int64_t logit_rows, int threads) {
  CHECK(pages_.grow_to(cached_ + n));
  batch_.clear();
  batch_.add(tokens_.data() + cached_, n, cached_, logit_rows, pages_.data());
  book_.begin_step(batch_.shape());
  float* logits = executor_.step(batch_, threads, &book_);
  cached_ += n;
  const int64_t vocab = executor_.vocab_size();
  for (int64_t r = 0; r < logit_rows; ++r)
    if (!all_finite(logits + r * vocab, vocab))
      return Error{ErrorCode::invalid_input,
                   fmt::format("{}: the logits at position {} are not finite; the weights must be "
                               "corrupt or out of range",
                               model_.path(), cached_ - logit_rows + r)};
  return logits;
}

Result<float*> Session::prefill(const std::atomic<bool>& cancelled, Seconds* step_begin) {
  const auto end = static_cast<int64_t>(tokens_.size());
  while (!cancelled) {
    const int64_t n = std::min(options_.prefill_chunk, end - cached_);
    const bool last = cached_ + n == end;
    RIDGE_TRY(float* logits, step(n, last ? 1 : 0, options_.prefill_threads));
    if (last) return logits;
    end_step(Phase::prefill, step_begin);
  }
  return nullptr;
}

void Session::end_step(Phase phase, Seconds* begin) {
  const Seconds end = now();
  book_.end_step(end - *begin, phase);
  *begin = end;
}

Result<Generation> Session::generate(std::span<const TokenId> prompt,
                                     const GenerateOptions& options,
                                     const std::function<void(const std::string&)>& on_text,
                                     const std::atomic<bool>& cancelled) {
  RIDGE_RETURN_IF_ERROR(check_room(static_cast<int64_t>(prompt.size())));
  const Seconds start = now();
  Seconds step_begin = start;
  tokens_.insert(tokens_.end(), prompt.begin(), prompt.end());
  Generation result;
  Sampler sampler(options.sampling, executor_.vocab_size());
  TextAssembler text(model_.tokenizer(), options.stops, on_text);

  RIDGE_TRY(float* logits, prefill(cancelled, &step_begin));
  if (options.max_tokens == 0 && logits != nullptr) {  // the prompt is fed, nothing is generated
    end_step(Phase::prefill, &step_begin);
    return result;
  }
  for (Phase phase = Phase::prefill; logits != nullptr; phase = Phase::decode) {
    if (options.hash_logits)  // before the sampler, which writes into them
      result.logits_hash = hash_on(result.logits_hash, logits, executor_.vocab_size());
    const TokenId token = sampler.sample(logits, tokens_);
    const bool ends = !options.ignore_eos && model_.tokenizer().ends_generation(token);
    result.tokens.push_back(token);
    tokens_.push_back(token);
    if (!ends) text.push(token);
    end_step(phase, &step_begin);
    if (phase == Phase::prefill) result.ttft = step_begin - start;
    const auto n = static_cast<int64_t>(result.tokens.size());
    if (ends || text.stopped()) {
      result.reason = FinishReason::stop;
      break;
    }
    if (n == options.max_tokens || static_cast<int64_t>(tokens_.size()) > options_.context) break;
    if (cancelled) {
      logits = nullptr;
      break;
    }
    RIDGE_TRY(logits, step(1, 1, options_.decode_threads));
  }
  if (logits == nullptr) result.reason = FinishReason::cancelled;
  result.text = text.finish();
  return result;
}

Result<const float*> Session::evaluate(std::span<const TokenId> tokens, int64_t logit_rows) {
  CHECK(static_cast<int64_t>(tokens.size()) <= options_.prefill_chunk);
  CHECK(cached_ == static_cast<int64_t>(tokens_.size()));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  Seconds begin = now();
  RIDGE_TRY(const float* logits,
            step(static_cast<int64_t>(tokens.size()), logit_rows, options_.prefill_threads));
  end_step(Phase::prefill, &begin);
  return logits;
}

}  // namespace ridge
