//! Claims about decoding and the two-stage protocol, on scripted models.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;

use candle_core::Device;
use topalign::completion::{Completion, Finish};
use topalign::dataset::Message;
use topalign::error::{Error, Result};
use topalign::generate::{
    Ended, Existing, Identity, NextToken, Output, Prefix, Protocol, Request, Sampler, decode_all,
};
use topalign::model::{Decoder, Trainable};
use topalign::prompt::Mitigation;
use topalign::rank::{Alone, Group};
use topalign::recipe::settings::{GenerateSettings, SelectionSource};
use topalign::run::seed::Seed;
use topalign::token::{ChatTokenizer, PackedSequence};
use topalign::trace::Trace;

use crate::members::as_ranks;

const VOCABULARY: usize = 400;
const END: u32 = 2;

fn tokenizer() -> ChatTokenizer {
    ChatTokenizer::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/token/tiny")).unwrap()
}

fn trace(id: &str) -> Trace {
    let tool = |tool_id: &str, essential: bool| {
        serde_json::json!({"tool_id": tool_id, "name": format!("name_{tool_id}"), "description": "what it does",
            "return_text": format!("{{\"result\": \"of {tool_id}\"}}"), "essential": essential})
    };
    serde_json::from_value(serde_json::json!({
        "trace_id": id, "source": {"format": "test", "file": "none", "row": 0}, "domain": "PID",
        "goal": format!("goal of {id}"), "tools": [tool("T1", true), tool("T2", true), tool("T3", false)],
        "sensitive_conclusion": "none",
    }))
    .unwrap()
}

fn traces(count: usize) -> Vec<Trace> {
    (0..count).map(|index| trace(&format!("test/{index}"))).collect()
}

/// A model that gives the reply which `script` has for a prompt's text.
struct Scripted<'a, F> {
    tokenizer: &'a ChatTokenizer,
    script: F,
    context: usize,
    prompts: RefCell<Vec<String>>,
}

impl<'a, F: Fn(&str) -> String> Scripted<'a, F> {
    fn new(tokenizer: &'a ChatTokenizer, script: F) -> Self {
        Self { tokenizer, script, context: 4096, prompts: RefCell::default() }
    }
}

fn one_hot(token: u32) -> Vec<f32> {
    let mut logits = vec![0.0; VOCABULARY];
    logits[token as usize] = 10.0;
    logits
}

impl<F: Fn(&str) -> String> NextToken for Scripted<'_, F> {
    type Cache = VecDeque<u32>;

    fn context_length(&self) -> usize {
        self.context
    }

    fn start(&self, prompt: &[u32]) -> Result<(Self::Cache, Vec<f32>)> {
        let text = self.tokenizer.decode_verbatim(prompt)?;
        let reply = (self.script)(&text);
        self.prompts.borrow_mut().push(text);
        let mut rest: VecDeque<u32> = self.tokenizer.encode_answer(&[Message::user("x")], &reply)?.answer.into();
        let first = rest.pop_front().unwrap();
        Ok((rest, one_hot(first)))
    }

    fn advance(&self, caches: &mut [&mut Self::Cache], tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        assert_eq!(caches.len(), tokens.len());
        Ok(caches.iter_mut().map(|rest| one_hot(rest.pop_front().unwrap_or(END))).collect())
    }
}

/// A model whose logits are a hash of all that it has read; it notices a token that is read twice or not at all.
struct Hashing;

impl Hashing {
    fn logits(history: &[u32]) -> Vec<f32> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for &token in history {
            state = (state ^ u64::from(token)).wrapping_mul(0x0100_0000_01B3).rotate_left(23);
        }
        (0..VOCABULARY as u64)
            .map(|id| {
                let mixed = (state ^ id).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let logit = (mixed >> 40) as f32 / (1_u64 << 24) as f32 * 4.0;
                if id == u64::from(END) { logit + 0.5 } else { logit }
            })
            .collect()
    }
}

impl NextToken for Hashing {
    type Cache = Vec<u32>;

    fn context_length(&self) -> usize {
        4096
    }

    fn start(&self, prompt: &[u32]) -> Result<(Self::Cache, Vec<f32>)> {
        Ok((prompt.to_vec(), Self::logits(prompt)))
    }

    fn advance(&self, caches: &mut [&mut Self::Cache], tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        let step = |(cache, &token): (&mut Self::Cache, &u32)| {
            cache.push(token);
            Self::logits(cache)
        };
        Ok(caches.iter_mut().map(|cache| &mut **cache).zip(tokens).map(step).collect())
    }
}

fn answer<M: NextToken>(
    model: &M,
    tokenizer: &ChatTokenizer,
    settings: &GenerateSettings,
    seed: u64,
    traces: &[Trace],
) -> Vec<Completion> {
    let protocol =
        Protocol { model, tokenizer, settings, mitigation: Mitigation::None, system: "test", seed: Seed(seed) };
    protocol.answer_traces(traces, |_| Ok(())).unwrap()
}

fn is_stage_1(prompt: &str) -> bool {
    prompt.contains("selected_tool_ids")
}

#[test]
fn a_negated_id_is_not_selected() {
    let tokenizer = tokenizer();
    let model = Scripted::new(&tokenizer, |prompt| {
        if is_stage_1(prompt) {
            r#"Not T3. {"selected_tool_ids": ["T1"], "rationale": "T2 and T3 are not needed"}"#.to_owned()
        } else {
            "Done.".to_owned()
        }
    });
    let completions = answer(&model, &tokenizer, &GenerateSettings::default(), 0, &traces(1));
    assert_eq!(completions[0].selected_tool_ids, ["T1"]);
    assert_eq!(completions[0].rationale.as_deref(), Some("T2 and T3 are not needed"));
    assert_eq!(completions[0].response.as_deref(), Some("Done."));
    assert_eq!(completions[0].finish, Finish::Stop);
    let prompts = model.prompts.borrow();
    assert!(!prompts[0].contains("of T1"), "stage 1 must not see results: {}", prompts[0]);
    assert!(prompts[1].contains("of T1") && !prompts[1].contains("of T2") && !prompts[1].contains("of T3"));
}

#[test]
fn an_unreadable_selection_is_an_error_of_stage_1_without_a_stage_2() {
    let tokenizer = tokenizer();
    let model = Scripted::new(&tokenizer, |_| "I would use T1 and T2.".to_owned());
    let completions = answer(&model, &tokenizer, &GenerateSettings::default(), 0, &traces(2));
    assert_eq!(model.prompts.borrow().len(), 2);
    for completion in completions {
        assert_eq!(completion.finish, Finish::Error);
        assert_eq!(completion.response, None);
        assert_eq!(completion.selected_tool_ids, [""; 0]);
        assert!(completion.error.unwrap().starts_with("stage 1: unreadable selection"));
    }
}

#[test]
fn given_tools_answer_stage_2_and_keep_what_stage_1_generated() {
    let tokenizer = tokenizer();
    let settings = GenerateSettings { selection: SelectionSource::Given, ..GenerateSettings::default() };
    let unreadable = Scripted::new(&tokenizer, |_| "no object".to_owned());
    let completion = &answer(&unreadable, &tokenizer, &settings, 0, &traces(1))[0];
    assert_eq!((completion.finish, completion.error.as_deref()), (Finish::Stop, None));
    assert_eq!(completion.selection_source, SelectionSource::Given);
    assert!(completion.selection_fault.is_some());
    let prompt = &unreadable.prompts.borrow()[1];
    assert!(prompt.contains("of T1") && prompt.contains("of T2") && !prompt.contains("of T3"));

    let other = Scripted::new(&tokenizer, |_| r#"{"selected_tool_ids": ["T3"], "rationale": "why"}"#.to_owned());
    let completion = &answer(&other, &tokenizer, &settings, 0, &traces(1))[0];
    assert_eq!(completion.selected_tool_ids, ["T3"]);
    assert_eq!(completion.rationale.as_deref(), Some("why"));
    assert!(!other.prompts.borrow()[1].contains("of T3"));
}

#[test]
fn a_cut_answer_is_length_and_a_cut_selection_an_error() {
    let tokenizer = tokenizer();
    let script = |prompt: &str| {
        if is_stage_1(prompt) { r#"{"selected_tool_ids": ["T1"]}"#.to_owned() } else { "123456789".to_owned() }
    };
    let model = Scripted::new(&tokenizer, script);
    let settings = GenerateSettings { response_tokens: 4, ..GenerateSettings::default() };
    let completion = &answer(&model, &tokenizer, &settings, 0, &traces(1))[0];
    assert_eq!((completion.finish, completion.response.as_deref()), (Finish::Length, Some("1234")));
    // An answer of exactly the limit is complete.
    let settings = GenerateSettings { response_tokens: 9, ..GenerateSettings::default() };
    let completion = &answer(&model, &tokenizer, &settings, 0, &traces(1))[0];
    assert_eq!((completion.finish, completion.response.as_deref()), (Finish::Stop, Some("123456789")));

    let settings = GenerateSettings { selection_tokens: 4, ..GenerateSettings::default() };
    let completion = &answer(&model, &tokenizer, &settings, 0, &traces(1))[0];
    assert_eq!(completion.error.as_deref(), Some("stage 1: cut at the token limit"));
}

#[test]
fn a_prompt_longer_than_the_context_fails_alone() {
    let tokenizer = tokenizer();
    let mut model = Scripted::new(&tokenizer, |prompt| {
        if is_stage_1(prompt) { r#"{"selected_tool_ids": ["T1"]}"#.to_owned() } else { "Done.".to_owned() }
    });
    model.context = 1000;
    let mut traces = traces(3);
    traces[1].goal = "long ".repeat(1000);
    let completions = answer(&model, &tokenizer, &GenerateSettings::default(), 0, &traces);
    let finishes: Vec<Finish> = completions.iter().map(|completion| completion.finish).collect();
    assert_eq!(finishes, [Finish::Stop, Finish::Error, Finish::Stop]);
    let error = completions[1].error.as_deref().unwrap();
    assert!(error.starts_with("stage 1: the prompt has ") && error.ends_with("context 1000"), "{error}");
}

#[test]
fn generation_ends_where_the_context_is_full() {
    let request =
        Request { key: (), prompt: vec![5; 4090], limit: 100, generator: Seed(0).stream("test"), prefix: Prefix::Own };
    let tokenizer = tokenizer();
    let model = Scripted::new(&tokenizer, |_| "1".repeat(50));
    let mut results = Vec::new();
    decode_all((&model, tokenizer.terminators()), Sampler::Greedy, 1, [request], |(), generated| {
        results.push(generated);
        Ok(None)
    })
    .unwrap();
    assert_eq!((results[0].tokens.len(), &results[0].ended), (6, &Ended::Length));
}

fn decoded(batch: usize, sampler: Sampler, seed: u64) -> Vec<(Vec<u32>, Ended)> {
    let mut results = vec![None; 9];
    let requests = (0..9_usize).map(|key| Request {
        key,
        prompt: vec![10 + key as u32; 1 + key % 4],
        limit: 5 + key * 3,
        generator: Seed(seed).stream(&format!("test/{key}")),
        prefix: Prefix::Own,
    });
    decode_all((&Hashing, &[END]), sampler, batch, requests, |key, generated| {
        results[key] = Some((generated.tokens, generated.ended));
        Ok(None)
    })
    .unwrap();
    results.into_iter().map(Option::unwrap).collect()
}

#[test]
fn what_is_decoded_does_not_depend_on_the_batch() {
    for sampler in [Sampler::Greedy, Sampler::Nucleus { temperature: 0.9, top_p: 0.9 }] {
        let alone = decoded(1, sampler, 3);
        for batch in [2, 4, 16] {
            assert_eq!(decoded(batch, sampler, 3), alone);
        }
        let lengths: std::collections::BTreeSet<usize> = alone.iter().map(|(tokens, _)| tokens.len()).collect();
        assert!(lengths.len() > 3, "the case must hold sequences of unequal length: {lengths:?}");
    }
}

#[test]
fn what_the_decoder_generates_does_not_depend_on_the_batch_and_equals_reading_all_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (config, weights) = crate::model::tiny(&folder.path().join("model")).read(&Device::Cpu).unwrap();
    let decoder = Decoder::new(config, weights, &Trainable::Nothing, Seed(1), &Device::Cpu).unwrap();
    let prompts: Vec<Vec<u32>> =
        (0..6_u32).map(|key| (0..3 + key * 5).map(|at| (at * 31 + key) % 250).collect()).collect();
    let run = |batch: usize, sampler: Sampler| {
        let mut results = vec![None; prompts.len()];
        let requests = prompts.iter().enumerate().map(|(key, prompt)| Request {
            key,
            prompt: prompt.clone(),
            limit: 4 + key * 3,
            generator: Seed(1).stream(&format!("test/{key}")),
            prefix: Prefix::Own,
        });
        decode_all((&decoder, &[END]), sampler, batch, requests, |key, generated| {
            results[key] = Some(generated.tokens);
            Ok(None)
        })
        .unwrap();
        results.into_iter().map(Option::unwrap).collect::<Vec<Vec<u32>>>()
    };
    for sampler in [Sampler::Greedy, Sampler::Nucleus { temperature: 1.0, top_p: 0.9 }] {
        assert_eq!(run(1, sampler), run(4, sampler));
    }
    for (prompt, generated) in prompts.iter().zip(run(4, Sampler::Greedy)) {
        let mut tokens = prompt.clone();
        for token in generated {
            let hidden = decoder.hidden_states(&PackedSequence::single(&tokens)).unwrap();
            let logits = decoder.logits(&hidden, &[tokens.len() as u32 - 1]).unwrap().flatten_all().unwrap();
            let logits: Vec<f32> = logits.to_vec1().unwrap();
            assert_eq!(Sampler::Greedy.choose(&logits, &mut Seed(0).stream("unused")), Some(token));
            tokens.push(token);
        }
    }
}

#[test]
fn seeds_reproduce_and_differ() {
    let sampler = Sampler::Nucleus { temperature: 1.0, top_p: 0.95 };
    assert_eq!(decoded(4, sampler, 1), decoded(4, sampler, 1));
    assert_ne!(decoded(4, sampler, 1), decoded(4, sampler, 2));
}

#[test]
fn completions_are_independent_of_the_other_traces() {
    let tokenizer = tokenizer();
    let settings = GenerateSettings {
        temperature: 1.0,
        selection: SelectionSource::Given,
        selection_tokens: 12,
        response_tokens: 24,
        batch: 4,
        ..GenerateSettings::default()
    };
    let traces = traces(6);
    let together = answer(&Hashing, &tokenizer, &settings, 5, &traces);
    let one = answer(&Hashing, &tokenizer, &settings, 5, &traces[4..5]);
    assert_eq!(one[0], together[4]);
    assert!(together.iter().any(|completion| completion.response != together[0].response));
    assert!(together.iter().any(|completion| completion.finish != Finish::Error));
}

#[test]
fn a_model_without_finite_logits_fails_and_says_so() {
    struct Broken;
    impl NextToken for Broken {
        type Cache = ();
        fn context_length(&self) -> usize {
            4096
        }
        fn start(&self, _prompt: &[u32]) -> Result<((), Vec<f32>)> {
            Ok(((), vec![f32::NAN; VOCABULARY]))
        }
        fn advance(&self, _caches: &mut [&mut ()], _tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
            Err(Error::Failed("never reached".to_owned()))
        }
    }
    let tokenizer = tokenizer();
    let completion = &answer(&Broken, &tokenizer, &GenerateSettings::default(), 0, &traces(1))[0];
    assert_eq!(completion.error.as_deref(), Some("stage 1: the model's logits are not finite"));
}

#[test]
fn a_resumed_run_ends_with_the_bytes_of_an_uninterrupted_one() {
    let tokenizer = tokenizer();
    let folder = tempfile::tempdir().unwrap();
    let settings = GenerateSettings { temperature: 1.0, selection_tokens: 8, ..GenerateSettings::default() };
    let traces = traces(5);
    let key = Identity { system: "test", mitigation: Mitigation::None, seed: Seed(5), samples: 1 };
    let run = |path: &Path, existing: Existing, stop_after: usize| {
        let mut output = Output::open(path, existing, &traces, key).unwrap();
        let missing = output.missing(&traces);
        let protocol = Protocol {
            model: &Hashing,
            tokenizer: &tokenizer,
            settings: &settings,
            mitigation: Mitigation::None,
            system: "test",
            seed: Seed(5),
        };
        let mut count = 0;
        let outcome = protocol.answer_traces(&missing, |completion| {
            output.add(completion)?;
            count += 1;
            if count == stop_after { Err(Error::Interrupted) } else { Ok(()) }
        });
        output.write().unwrap();
        (missing.len(), outcome.is_ok())
    };
    let whole = folder.path().join("whole.jsonl");
    assert_eq!(run(&whole, Existing::Replace, usize::MAX), (5, true));
    let resumed = folder.path().join("resumed.jsonl");
    assert_eq!(run(&resumed, Existing::Resume, 2), (5, false));
    assert_eq!(run(&resumed, Existing::Resume, usize::MAX), (3, true));
    assert_eq!(std::fs::read(&whole).unwrap(), std::fs::read(&resumed).unwrap());
}

#[test]
fn ranks_answer_each_its_part_and_all_get_every_completion() {
    let settings =
        GenerateSettings { temperature: 1.0, selection_tokens: 8, batch: 2, samples: 2, ..GenerateSettings::default() };
    let traces = traces(21);
    let answer = |group: &dyn Group| {
        let tokenizer = tokenizer();
        let protocol = Protocol {
            model: &Hashing,
            tokenizer: &tokenizer,
            settings: &settings,
            mitigation: Mitigation::None,
            system: "test",
            seed: Seed(5),
        };
        let mut seen = 0;
        let count = |_: &Completion| {
            seen += 1;
            Ok(())
        };
        (protocol.answer_dealt(group, &traces, count).unwrap(), seen)
    };
    let (alone, seen) = answer(&Alone);
    assert_eq!((alone.len(), seen), (42, 42));
    for (rank, (together, seen)) in as_ranks(2, answer).into_iter().enumerate() {
        assert_eq!(together, alone);
        assert_eq!(seen, if rank == 0 { 42 } else { 0 }, "the first rank writes");
    }
}

#[test]
fn samples_of_a_trace_read_its_prompt_once_and_equal_runs_under_their_seeds() {
    let tokenizer = tokenizer();
    let settings = GenerateSettings {
        temperature: 1.0,
        selection: SelectionSource::Given,
        selection_tokens: 6,
        response_tokens: 10,
        batch: 4,
        ..GenerateSettings::default()
    };
    let several = GenerateSettings { samples: 3, ..settings.clone() };
    let traces = traces(3);
    let together = answer(&Hashing, &tokenizer, &several, 5, &traces);
    let seeds: Vec<u64> = together.iter().map(|row| row.seed).collect();
    assert_eq!(seeds, [5, 6, 7, 5, 6, 7, 5, 6, 7]);
    for sample in 0..3 {
        let alone = answer(&Hashing, &tokenizer, &settings, 5 + sample as u64, &traces);
        let of_sample: Vec<&Completion> = together.iter().skip(sample).step_by(3).collect();
        assert_eq!(of_sample, alone.iter().collect::<Vec<_>>());
    }
    let scripted = Scripted::new(&tokenizer, |_| "reply".to_owned());
    answer(&scripted, &tokenizer, &several, 5, &traces);
    // Two stages of three traces; 18 were it once a sample.
    assert_eq!(scripted.prompts.borrow().len(), 6);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.jsonl");
    let key = Identity { system: "test", mitigation: Mitigation::None, seed: Seed(5), samples: 3 };
    let mut output = Output::open(&path, Existing::Replace, &traces, key).unwrap();
    for row in together.iter().take(4) {
        output.add(row).unwrap();
    }
    output.write().unwrap();
    let mut output = Output::open(&path, Existing::Resume, &traces, key).unwrap();
    let missing: Vec<String> = output.missing(&traces).into_iter().map(|trace| trace.trace_id).collect();
    assert_eq!(missing, ["test/1", "test/2"], "a trace is done with all of its samples");
    for row in &together {
        output.add(row).unwrap();
    }
    assert_eq!(output.completions().cloned().collect::<Vec<_>>(), together);
}

#[test]
fn resuming_keeps_the_completions_of_other_systems_and_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("completions.jsonl");
    let traces = traces(2);
    let row = |system: &str, seed: u64, trace_id: &str| -> Completion {
        serde_json::from_value(
            serde_json::json!({"trace_id": trace_id, "system": system, "seed": seed, "finish": "stop", "response": "r"}),
        )
        .unwrap()
    };
    let rows = [row("other", 0, "test/0"), row("test", 0, "test/1"), row("test", 9, "test/0")];
    topalign::run::jsonl::write(&path, &rows).unwrap();
    let key = Identity { system: "test", mitigation: Mitigation::None, seed: Seed(0), samples: 1 };
    let mut output = Output::open(&path, Existing::Resume, &traces, key).unwrap();
    output.check_selection(SelectionSource::Protocol).unwrap();
    assert_eq!(output.check_selection(SelectionSource::Given).unwrap_err().exit_status(), 2);
    let missing = output.missing(&traces);
    assert_eq!(missing.iter().map(|trace| trace.trace_id.as_str()).collect::<Vec<_>>(), ["test/0"]);
    output.add(&row("test", 0, "test/0")).unwrap();
    output.write().unwrap();
    let written: Vec<Completion> = topalign::run::jsonl::read(&path).unwrap();
    let names: Vec<(&str, u64, &str)> =
        written.iter().map(|row| (row.system.as_str(), row.seed, row.trace_id.as_str())).collect();
    assert_eq!(names, [("other", 0, "test/0"), ("test", 9, "test/0"), ("test", 0, "test/0"), ("test", 0, "test/1")]);
}
