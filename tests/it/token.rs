//! Claims about tokenizers, templates, encoding and packing. Goldens: `tests/cases/token/make_goldens.py`.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self, Value as Metadata};
use proptest::prelude::*;
use serde::Deserialize;
use topalign::dataset::Message;
use topalign::token::{ChatTokenizer, Tree, pack};

#[derive(Deserialize)]
struct Goldens {
    smollm2: Vec<Encoded>,
    tiny: Tiny,
}

#[derive(Deserialize)]
struct Tiny {
    texts: Vec<Encoded>,
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Encoded {
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Prompt {
    messages: Vec<Message>,
    ids: Vec<u32>,
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/token")
}

fn goldens() -> Goldens {
    serde_json::from_slice(&std::fs::read(cases().join("goldens.json")).unwrap()).unwrap()
}

fn tiny() -> ChatTokenizer {
    ChatTokenizer::load(&cases().join("tiny")).unwrap()
}

/// A copy of the tiny tokenizer with another template.
fn tiny_with(template: &str) -> ChatTokenizer {
    let folder = tempfile::tempdir().unwrap();
    copy_tiny(folder.path());
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    ChatTokenizer::load(folder.path()).unwrap()
}

fn copy_tiny(folder: &Path) {
    for name in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
        std::fs::copy(cases().join("tiny").join(name), folder.join(name)).unwrap();
    }
}

/// SmolLM2-135M-Instruct as GGUF, where a test machine has it.
fn smollm2() -> Option<PathBuf> {
    let default = "checkpoints/smollm2-135m-instruct-gguf/SmolLM2-135M-Instruct.Q4_1.gguf";
    let path = std::env::var_os("TOPALIGN_SMOLLM2")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(default), PathBuf::from);
    if !path.is_file() {
        println!("skipped: no SmolLM2 weights (scripts/fetch-smollm2 fetches them)");
        return None;
    }
    Some(path)
}

fn user() -> Vec<Message> {
    vec![Message::user("How much?")]
}

#[test]
fn prompts_equal_those_of_transformers() {
    let tokenizer = tiny();
    for prompt in goldens().tiny.prompts {
        assert_eq!(tokenizer.encode_prompt(&prompt.messages).unwrap(), prompt.ids);
    }
}

#[derive(Deserialize)]
struct TemplateCases {
    conversations: std::collections::BTreeMap<String, Conversation>,
    masks: Vec<Marked>,
}

#[derive(Deserialize)]
struct Conversation {
    messages: serde_json::Value,
}

#[derive(Deserialize)]
struct Marked {
    template: String,
    conversation: String,
    ids: Vec<u32>,
    mask: Vec<u8>,
}

#[test]
fn generation_marks_give_the_ids_and_assistant_masks_of_transformers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/templates");
    let cases: TemplateCases = serde_json::from_slice(&std::fs::read(folder.join("cases.json")).unwrap()).unwrap();
    assert!(cases.masks.len() > 10);
    for case in cases.masks {
        let template = std::fs::read_to_string(folder.join(format!("{}.jinja", case.template))).unwrap();
        let messages: Vec<Message> =
            serde_json::from_value(cases.conversations[&case.conversation].messages.clone()).unwrap();
        let encoded = tiny_with(&template).encode_conversation(&messages).unwrap();
        let name = format!("{}, {}", case.template, case.conversation);
        assert_eq!(encoded.ids, case.ids, "{name}");
        assert_eq!(encoded.spoken.iter().map(|spoken| u8::from(*spoken)).collect::<Vec<_>>(), case.mask, "{name}");
    }
}

#[test]
fn without_marks_every_assistant_turn_is_marked_from_its_first_word_to_its_terminator() {
    let tokenizer = tiny();
    let messages = [user()[0].clone(), Message::assistant("Paid."), user()[0].clone(), Message::assistant("Done.")];
    let encoded = tokenizer.encode_conversation(&messages).unwrap();
    let spoken: Vec<u32> =
        encoded.ids.iter().zip(&encoded.spoken).filter(|(_, spoken)| **spoken).map(|(&id, _)| id).collect();
    assert_eq!(tokenizer.decode_verbatim(&spoken).unwrap(), "Paid.<|im_end|>Done.<|im_end|>");
    let answer = tokenizer.encode_answer(&messages[..3], "Done.").unwrap();
    assert!(spoken.ends_with(&answer.answer));
}

#[test]
fn a_conversation_in_which_the_assistant_says_nothing_or_is_rewritten_is_refused() {
    assert_eq!(tiny().encode_conversation(&user()).unwrap_err().exit_status(), 2);
    let rewriting = "{% for m in messages %}{{ m.role }}:{{ m.content | upper if m.role == 'assistant' and not loop.last else m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";
    let messages = [user()[0].clone(), Message::assistant("Paid."), user()[0].clone()];
    let error = tiny_with(rewriting).encode_conversation(&messages).unwrap_err();
    assert!(error.exit_status() == 2 && error.to_string().contains("earlier turns differently"), "{error}");
}

#[test]
fn texts_survive_encoding_and_decoding() {
    let tokenizer = tiny();
    for golden in goldens().tiny.texts {
        assert_eq!(tokenizer.decode_verbatim(&golden.ids).unwrap(), golden.text);
    }
}

#[test]
fn smollm2_ids_equal_those_of_llama_cpp() {
    let Some(path) = smollm2() else { return };
    let folder = tempfile::tempdir().unwrap();
    let rebuilt = ChatTokenizer::load(&path).unwrap();
    for file in rebuilt.files() {
        std::fs::write(folder.path().join(&file.name), &file.bytes).unwrap();
    }
    // A template that writes the message alone gives plain texts through the public door.
    std::fs::write(folder.path().join("chat_template.jinja"), "{{ messages[0].content }}{{ '' }}").unwrap();
    let plain = ChatTokenizer::load(folder.path()).unwrap();
    for golden in goldens().smollm2 {
        assert_eq!(plain.encode_prompt(&[Message::user(&golden.text)]).unwrap(), golden.ids, "{:?}", golden.text);
    }
}

#[test]
fn smollm2_chat_is_rendered_with_its_own_system_prompt() {
    let Some(path) = smollm2() else { return };
    let tokenizer = ChatTokenizer::load(&path).unwrap();
    let injected = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
    assert_eq!(tokenizer.injected_system_prompt().as_deref(), Some(injected));
    assert_eq!(tokenizer.terminators(), [2]);
    let ids = tokenizer.encode_prompt(&user()).unwrap();
    let text = tokenizer.decode_verbatim(&ids).unwrap();
    let expected = format!(
        "<|im_start|>system\n{injected}<|im_end|>\n<|im_start|>user\nHow much?<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn digits_are_split_one_by_one() {
    let tokenizer = tiny();
    let one = tokenizer.encode_answer(&user(), "7").unwrap().answer.len();
    let twelve = tokenizer.encode_answer(&user(), "123456789012").unwrap().answer.len();
    assert_eq!(twelve, one + 11);
}

#[test]
fn answers_start_at_content_and_end_with_one_terminator() {
    let tokenizer = tiny();
    let encoded = tokenizer.encode_answer(&user(), "Paid 185.00.").unwrap();
    assert_eq!(tokenizer.decode_verbatim(&encoded.answer).unwrap(), "Paid 185.00.<|im_end|>");
    assert_eq!(encoded.prompt, tokenizer.encode_prompt(&user()).unwrap());
    assert_eq!(encoded.merged_at_seam, 0);
}

#[test]
fn an_answer_that_merges_with_the_header_is_split_at_the_common_prefix_and_counted() {
    let tokenizer = tiny();
    let encoded = tokenizer.encode_answer(&user(), "\n\nPaid.").unwrap();
    let whole = [encoded.prompt.clone(), encoded.answer.clone()].concat();
    let text = tokenizer.decode_verbatim(&whole).unwrap();
    assert!(text.ends_with("<|im_start|>assistant\n\n\nPaid.<|im_end|>"), "{text}");
    let prompt = tokenizer.encode_prompt(&user()).unwrap();
    assert_eq!(encoded.merged_at_seam, 1);
    assert_eq!(encoded.prompt.len() + encoded.merged_at_seam, prompt.len());
    assert!(prompt.starts_with(&encoded.prompt));
}

#[test]
fn answers_that_hold_a_terminator_or_nothing_are_refused() {
    let tokenizer = tiny();
    for answer in ["a<|im_end|>b", "", " \n"] {
        assert_eq!(tokenizer.encode_answer(&user(), answer).unwrap_err().exit_status(), 2);
    }
}

#[test]
fn a_template_without_end_of_turn_gets_the_end_of_sequence() {
    let tokenizer = tiny_with(
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}",
    );
    let encoded = tokenizer.encode_answer(&user(), "Paid.").unwrap();
    assert_eq!(tokenizer.decode_verbatim(&encoded.answer).unwrap(), "Paid.\n<|im_end|>");
}

#[test]
fn several_terminators_of_the_template_are_trained_as_one() {
    let tokenizer = tiny_with(
        "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}assistant: {% else %}<|endoftext|><|im_end|>{% endif %}",
    );
    let encoded = tokenizer.encode_answer(&user(), "Paid.");
    // The end of text stands after the conversation, where the prompt has a header: the common prefix ends before it.
    let encoded = encoded.unwrap();
    assert_eq!(tokenizer.decode_verbatim(&encoded.answer).unwrap(), "Paid.<|im_end|>");
}

#[test]
fn a_template_that_ignores_the_generation_prompt_still_trains_content_only() {
    let tokenizer =
        tiny_with("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}");
    let prompt = tokenizer.encode_prompt(&user()).unwrap();
    assert!(tokenizer.decode_verbatim(&prompt).unwrap().ends_with("<|im_start|>assistant\n"));
    let encoded = tokenizer.encode_answer(&user(), "Paid.").unwrap();
    assert_eq!(tokenizer.decode_verbatim(&encoded.answer).unwrap(), "Paid.<|im_end|>");
}

#[test]
fn a_generation_prompt_that_opens_a_block_is_anchored_at_the_common_prefix() {
    let tokenizer = tiny_with(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
    );
    let encoded = tokenizer.encode_answer(&user(), "Paid.").unwrap();
    assert_eq!(tokenizer.decode_verbatim(&encoded.answer).unwrap(), "Paid.<|im_end|>");
}

#[test]
fn a_template_that_rewrites_the_prompt_once_answered_is_refused() {
    let tokenizer = tiny_with(
        "{{ messages | length }}{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}>{% endif %}",
    );
    assert_eq!(tokenizer.encode_answer(&user(), "Paid.").unwrap_err().exit_status(), 2);
}

#[test]
fn the_beginning_of_sequence_is_never_doubled() {
    let begin = "<|endoftext|>";
    let folder = tempfile::tempdir().unwrap();
    copy_tiny(folder.path());
    let path = folder.path().join("tokenizer.json");
    let mut rules: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    rules["post_processor"] = serde_json::json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": begin, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {begin: {"id": begin, "ids": [0], "tokens": [begin]}},
    });
    std::fs::write(&path, rules.to_string()).unwrap();
    let config = serde_json::json!({"bos_token": begin, "eos_token": "<|im_end|>"});
    std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    for template in ["{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"] {
        std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
        let ids = ChatTokenizer::load(folder.path()).unwrap().encode_prompt(&user()).unwrap();
        assert_eq!(ids.iter().filter(|&&id| id == 0).count(), 1, "{template}");
        assert_eq!(ids[0], 0);
    }
}

#[test]
fn terminators_hold_the_end_of_turn_first_and_every_declared_end() {
    let folder = tempfile::tempdir().unwrap();
    copy_tiny(folder.path());
    std::fs::write(folder.path().join("generation_config.json"), r#"{"eos_token_id": [0, 2]}"#).unwrap();
    assert_eq!(ChatTokenizer::load(folder.path()).unwrap().terminators(), [2, 0]);
}

#[test]
fn missing_files_are_named_with_a_hint() {
    for (missing, named) in [("tokenizer.json", "tokenizer.json"), ("chat_template.jinja", "chat_template.jinja")] {
        let folder = tempfile::tempdir().unwrap();
        copy_tiny(folder.path());
        std::fs::remove_file(folder.path().join(missing)).unwrap();
        let error = ChatTokenizer::load(folder.path()).unwrap_err();
        assert_eq!(error.exit_status(), 2);
        assert!(error.to_string().contains(named), "{error}");
        assert!(!error.hints().is_empty());
    }
}

#[test]
fn files_of_a_folder_are_copied_byte_for_byte_and_the_template_stands_in_both_places() {
    let files = tiny();
    let file = |name: &str| files.files().iter().find(|file| file.name == name).unwrap().bytes.clone();
    for name in ["tokenizer.json", "chat_template.jinja"] {
        assert_eq!(file(name), std::fs::read(cases().join("tiny").join(name)).unwrap());
    }
    let config: serde_json::Value = serde_json::from_slice(&file("tokenizer_config.json")).unwrap();
    assert_eq!(config["chat_template"].as_str().unwrap().as_bytes(), file("chat_template.jinja"));
    assert_eq!(config["eos_token"], "<|im_end|>");
}

/// The tiny tokenizer as GGUF metadata.
fn tiny_gguf(path: &Path, pre: &str) {
    let rules: serde_json::Value =
        serde_json::from_slice(&std::fs::read(cases().join("tiny/tokenizer.json")).unwrap()).unwrap();
    let mut tokens: Vec<(u64, String)> = rules["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(token, id)| (id.as_u64().unwrap(), token.clone()))
        .collect();
    tokens.sort();
    let merges = rules["model"]["merges"].as_array().unwrap();
    let merges = merges.iter().map(|pair| format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()));
    let template = std::fs::read_to_string(cases().join("tiny/chat_template.jinja")).unwrap();
    let tokens = tokens.into_iter().map(|(_, token)| token).collect();
    write_gguf(path, pre, tokens, merges.collect(), &template);
}

/// A tokenizer's tables as GGUF metadata; the first three tokens are special.
fn write_gguf(path: &Path, pre: &str, tokens: Vec<String>, merges: Vec<String>, template: &str) {
    let text = |text: &str| Metadata::String(text.to_owned());
    let texts = |texts: Vec<String>| Metadata::Array(texts.into_iter().map(Metadata::String).collect());
    let kinds = (0..tokens.len()).map(|id| Metadata::I32(if id < 3 { 3 } else { 1 })).collect();
    let metadata = HashMap::from([
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text(pre)),
        ("tokenizer.ggml.tokens", texts(tokens)),
        ("tokenizer.ggml.token_type", Metadata::Array(kinds)),
        ("tokenizer.ggml.merges", texts(merges)),
        ("tokenizer.ggml.bos_token_id", Metadata::U32(1)),
        ("tokenizer.ggml.eos_token_id", Metadata::U32(2)),
        ("tokenizer.chat_template", text(template)),
    ]);
    let metadata: Vec<(&str, &Metadata)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let mut file = std::fs::File::create(path).unwrap();
    gguf_file::write(&mut file, &metadata, &[]).unwrap();
}

#[derive(Deserialize)]
struct Cuts {
    tokens: Vec<String>,
    merges: Vec<String>,
    texts: Vec<serde_json::Value>,
}

#[test]
fn every_familys_way_of_cutting_text_gives_the_ids_of_transformers_from_a_gguf_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cuts.json");
    let cuts: Cuts = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for pre in ["smollm", "qwen2", "llama-bpe"] {
        let path = folder.path().join(format!("{pre}.gguf"));
        write_gguf(&path, pre, cuts.tokens.clone(), cuts.merges.clone(), "{{ messages[0].content }}{{ '' }}");
        let tokenizer = ChatTokenizer::load(&path).unwrap();
        for case in &cuts.texts {
            let text = case["text"].as_str().unwrap();
            let expected: Vec<u32> = serde_json::from_value(case[pre].clone()).unwrap();
            assert_eq!(tokenizer.encode_prompt(&[Message::user(text)]).unwrap(), expected, "{pre}: {text:?}");
        }
    }
}

#[test]
fn a_tokenizer_rebuilt_from_gguf_equals_its_folder_and_exports_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    tiny_gguf(&path, "smollm");
    let rebuilt = ChatTokenizer::load(&path).unwrap();
    for file in rebuilt.files() {
        std::fs::write(folder.path().join(&file.name), &file.bytes).unwrap();
    }
    let exported = ChatTokenizer::load(folder.path()).unwrap();
    for prompt in goldens().tiny.prompts {
        assert_eq!(rebuilt.encode_prompt(&prompt.messages).unwrap(), prompt.ids);
        assert_eq!(exported.encode_prompt(&prompt.messages).unwrap(), prompt.ids);
    }
    assert_eq!(rebuilt.terminators(), exported.terminators());
    assert_eq!(rebuilt.injected_system_prompt().as_deref(), Some("You are a test."));
}

#[test]
fn an_unknown_way_of_cutting_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    tiny_gguf(&path, "somebody-else");
    let error = ChatTokenizer::load(&path).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(error.to_string().contains("somebody-else"), "{error}");
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let error = ChatTokenizer::load(&cases().join("goldens.json")).unwrap_err();
    assert_eq!(error.exit_status(), 2);
}

#[test]
fn encoded_trees_share_one_prompt_and_decode_to_their_answers() {
    let tokenizer = tiny();
    let rows = [("dpo:0/chosen", "Paid 185.00."), ("dpo:0", "No."), ("dpo:1", "\n\nmerged")];
    let tree = tokenizer.encode_tree(&user(), &rows).unwrap();
    assert_eq!(tree.row_ids, ["dpo:0/chosen", "dpo:0", "dpo:1"]);
    let packed = pack(&[&tree]);
    let whole = tokenizer.encode_answer(&user(), "No.").unwrap();
    assert!(whole.prompt.starts_with(&tree.prompt));
    for (index, (_, answer)) in rows.iter().enumerate() {
        let trained = packed.targets.iter().zip(&packed.answer_of_row).filter(|(_, of)| **of == index);
        let trained: Vec<u32> = trained.map(|(&target, _)| target).collect();
        assert_eq!(trained, tree.answers[index]);
        let text = tokenizer.decode_verbatim(&trained).unwrap();
        assert!(text.ends_with(&format!("{answer}<|im_end|>")) || text.ends_with("merged<|im_end|>"), "{text}");
    }
}

fn trees() -> impl Strategy<Value = Vec<Tree>> {
    let tokens = |most| prop::collection::vec(0_u32..50, 1..most);
    let tree = (tokens(8), prop::collection::vec(tokens(6), 0..4)).prop_map(|(prompt, answers)| Tree {
        row_ids: Vec::new(),
        prompt,
        answers,
    });
    prop::collection::vec(tree, 0..4)
}

proptest! {
    #[test]
    fn every_answer_token_is_a_target_once_and_is_predicted_from_its_own_past(trees in trees()) {
        let packed = pack(&trees.iter().collect::<Vec<_>>());
        let sequence = &packed.sequence;
        prop_assert_eq!(sequence.tokens.len(), trees.iter().map(Tree::packed_tokens).sum::<usize>());
        let segment_of = |row: usize| sequence.segments.iter().position(|segment| (segment.start..segment.end).contains(&row));
        let mut index = 0;
        for tree in &trees {
            for answer in &tree.answers {
                let trained: Vec<usize> = (0..packed.rows.len()).filter(|&row| packed.answer_of_row[row] == index).collect();
                prop_assert_eq!(trained.len(), answer.len());
                for (step, &row) in trained.iter().enumerate() {
                    prop_assert_eq!(packed.targets[row], answer[step]);
                    let hidden = packed.rows[row] as usize;
                    let past: Vec<u32> = tree.prompt.iter().chain(&answer[..step]).copied().collect();
                    prop_assert_eq!(seen_from(sequence, segment_of(hidden).unwrap(), hidden), past.clone());
                    prop_assert_eq!(sequence.positions[hidden] as usize, past.len() - 1);
                }
                index += 1;
            }
        }
    }
}

/// The tokens that a row attends to, from the root of its tree to itself.
fn seen_from(sequence: &topalign::token::PackedSequence, segment: usize, row: usize) -> Vec<u32> {
    let here = sequence.segments[segment];
    let mut seen =
        here.parent.map_or_else(Vec::new, |parent| seen_from(sequence, parent, sequence.segments[parent].end - 1));
    seen.extend_from_slice(&sequence.tokens[here.start..=row]);
    seen
}
