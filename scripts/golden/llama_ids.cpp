// The ids that llama.cpp gives to texts, for scripts/golden/vocabularies.py: each line of the standard
// input is the UTF-8 of a text in hexadecimal, each line of the output its ids. The arguments are a
// GGUF file, and 1 or 0 for the tokens around a text, and for special tokens in it.
//
//     g++ -O1 -I LLAMA/include -I LLAMA/ggml/include scripts/golden/llama_ids.cpp -o llama_ids \
//       -L BUILD/bin -lllama -lggml -lggml-base -Wl,-rpath,BUILD/bin
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>
#include "llama.h"

static void quiet(ggml_log_level, const char *, void *) {}

int main(int, char **argv) {
  llama_log_set(quiet, nullptr);
  llama_backend_init();
  auto params = llama_model_default_params();
  params.vocab_only = true;
  auto *model = llama_model_load_from_file(argv[1], params);
  if (!model) return 1;
  auto *vocab = llama_model_get_vocab(model);
  const bool add = atoi(argv[2]), special = atoi(argv[3]);
  for (std::string line; std::getline(std::cin, line);) {
    std::string text;
    for (size_t i = 0; i + 1 < line.size(); i += 2) {
      text += (char) strtol(line.substr(i, 2).c_str(), nullptr, 16);
    }
    std::vector<llama_token> ids(text.size() + 16);
    const int count =
        llama_tokenize(vocab, text.data(), text.size(), ids.data(), ids.size(), add, special);
    for (int i = 0; i < count; i++) printf("%s%d", i ? " " : "", ids[i]);
    printf("\n");
  }
}
