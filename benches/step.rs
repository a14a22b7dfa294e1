//! Training and decoding speed as a share of this machine's own matrix-product rate, measured in the same run.
//!
//! `cargo bench --bench step -- MODEL [TOKENS]` prints one table. Machines drift: only the ratios mean anything.

use std::time::Instant;

use candle_core::{Device, Tensor};
use topalign::error::Result;
use topalign::model::{Decoder, KeyValueCache, ModelConfig, ModelSource, Step, Trainable};
use topalign::recipe::settings::{AdapterScaling, LoraSettings, Positive, Projection, Share};
use topalign::run::seed::Seed;
use topalign::token::{Tree, pack};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some(model) = arguments.first() else {
        println!("skipped: name a model, e.g. `cargo bench --bench step -- checkpoints/.../model.gguf`");
        return Ok(());
    };
    let tokens = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(512);
    topalign::model::with_big_stack(|| run(model, tokens))
}

fn run(model: &str, tokens: usize) -> Result<()> {
    let local = ModelSource::parse(model)?.resolve()?;
    let peak = peak_rate()?;
    println!("f32 matrix product, best shape of this model: {:.0} GFLOP/s", peak / 1e9);
    for (name, trainable, passes) in [("full", Trainable::Full, 3.0), ("adapter", lora()?, 2.0)] {
        let (config, weights) = local.read(&Device::Cpu)?;
        let decoder = Decoder::new(config, weights, &trainable, Seed(1), &Device::Cpu)?;
        let row = Tree { row_ids: vec![], prompt: ids(1), answers: vec![ids(tokens)] };
        let tree = Tree { row_ids: vec![], prompt: ids(300), answers: (0..4).map(|_| ids(100)).collect() };
        for (shape, tree) in [("one row", row), ("prompt 300, answers 4 x 100", tree)] {
            let packed = pack(&[&tree]);
            let work = operations(decoder.config(), packed.sequence.tokens.len(), packed.rows.len()) * passes;
            let seconds = best(3, || {
                let hidden = decoder.hidden_states(&packed.sequence)?;
                let loss = decoder.log_probabilities(&hidden, &packed.rows, &packed.targets)?.mean_all()?;
                loss.backward()?;
                Ok(())
            })?;
            let count = packed.sequence.tokens.len();
            println!(
                "{name}, {shape}: {seconds:.2} s, {:.0} tokens/s, {:.0}% of the rate",
                count as f64 / seconds,
                100.0 * work / seconds / peak
            );
        }
        decode(&decoder.detached())?;
    }
    println!("peak memory {} MB", peak_memory_megabytes().unwrap_or(0));
    Ok(())
}

fn lora() -> Result<Trainable> {
    let alpha = Positive::try_from(32.0).map_err(topalign::error::Fault::new)?;
    let rank = std::num::NonZeroUsize::MIN.saturating_add(15);
    Ok(Trainable::Lora(LoraSettings {
        rank,
        alpha,
        dropout: Share::ZERO,
        target_modules: Projection::ALL.to_vec(),
        scaling: AdapterScaling::Lora,
    }))
}

fn ids(count: usize) -> Vec<u32> {
    (0..count as u32).map(|index| 1000 + (index * 7919) % 20_000).collect()
}

/// Multiplications and additions of one forward pass; the head only where it is computed.
fn operations(config: &ModelConfig, tokens: usize, rows: usize) -> f64 {
    let queries = config.heads * config.head_size;
    let layer = config.hidden_size * (2 * queries + 2 * config.key_value_size() + 3 * config.intermediate_size);
    2.0 * (tokens * config.layers * layer + rows * config.hidden_size * config.vocabulary) as f64
}

fn best(times: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..times {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn peak_rate() -> Result<f64> {
    let mut peak: f64 = 0.0;
    for (rows, inner, columns) in [(512, 576, 1536), (1024, 576, 49_152), (2048, 2048, 2048)] {
        let a = Tensor::rand(0_f32, 1.0, (rows, inner), &Device::Cpu)?;
        let b = Tensor::rand(0_f32, 1.0, (inner, columns), &Device::Cpu)?;
        let seconds = best(10, || Ok(a.matmul(&b).map(|_| ())?))?;
        peak = peak.max(2.0 * (rows * inner * columns) as f64 / seconds);
    }
    Ok(peak)
}

fn decode(decoder: &Decoder) -> Result<()> {
    for batch in [1, 16] {
        let prompt = ids(300);
        let mut caches: Vec<KeyValueCache> = (0..batch).map(|_| KeyValueCache::default()).collect();
        let start = Instant::now();
        decoder.decode(&mut caches.iter_mut().map(|cache| Step { tokens: &prompt, cache }).collect::<Vec<_>>())?;
        let prefill = start.elapsed().as_secs_f64();
        let start = Instant::now();
        for token in ids(20) {
            let token = [token];
            decoder.decode(&mut caches.iter_mut().map(|cache| Step { tokens: &token, cache }).collect::<Vec<_>>())?;
        }
        let rate = f64::from(20 * batch) / start.elapsed().as_secs_f64();
        println!(
            "decoding, batch {batch}: {rate:.0} tokens/s after a prefill of {:.0} tokens/s",
            f64::from(300 * batch) / prefill
        );
    }
    Ok(())
}

fn peak_memory_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes / 1024)
}
