//! A bigram model: small enough to train in milliseconds, and everything the loop asks of a model.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};
use rand::RngExt as _;
use topalign::error::Result;
use topalign::recipe::settings::{Export, Positive, RowOrder, Share, StepSize, TrainSettings, defaults};
use topalign::run::seed::Seed;
use topalign::token::{Packed, Tree};
use topalign::train::{Pass, Policy};

pub const VOCABULARY: usize = 24;
const HIDDEN: usize = 8;

/// Log-probability of the next token from the current one: `log_softmax(embedding[token] * head + bias)`.
pub struct Bigram {
    parameters: BTreeMap<String, Var>,
    /// Forward passes made.
    pub passes: Cell<usize>,
}

impl Bigram {
    pub fn new(seed: u64) -> Self {
        let mut random = Seed(seed).stream("toy");
        let mut matrix = |rows: usize, columns: usize| {
            let values: Vec<f32> = (0..rows * columns).map(|_| random.random_range(-0.5..0.5)).collect();
            Var::from_tensor(&Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap()).unwrap()
        };
        let parameters = BTreeMap::from([
            ("embedding.weight".to_owned(), matrix(VOCABULARY, HIDDEN)),
            ("head.weight".to_owned(), matrix(HIDDEN, VOCABULARY)),
            ("head.bias".to_owned(), Var::zeros(VOCABULARY, candle_core::DType::F32, &Device::Cpu).unwrap()),
        ]);
        Self { parameters, passes: Cell::new(0) }
    }

    pub fn values(&self) -> BTreeMap<String, Vec<f32>> {
        let flat = |var: &Var| var.as_tensor().flatten_all().unwrap().to_vec1().unwrap();
        self.parameters.iter().map(|(name, var)| (name.clone(), flat(var))).collect()
    }

    pub fn set(&self, name: &str, values: Vec<f32>) {
        let var = &self.parameters[name];
        var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu).unwrap()).unwrap();
    }
}

impl Policy for Bigram {
    fn parameters(&self) -> &BTreeMap<String, Var> {
        &self.parameters
    }

    fn log_probabilities(&self, packed: &Packed, _: Pass<'_>) -> Result<Tensor> {
        self.passes.set(self.passes.get() + 1);
        let inputs: Vec<u32> = packed.rows.iter().map(|&row| packed.sequence.tokens[row as usize]).collect();
        let inputs = Tensor::new(inputs, &Device::Cpu)?;
        let targets = Tensor::new(packed.targets.as_slice(), &Device::Cpu)?;
        let hidden = self.parameters["embedding.weight"].as_tensor().index_select(&inputs, 0)?; // [rows, hidden]
        let logits = hidden.matmul(self.parameters["head.weight"].as_tensor())?; // [rows, vocabulary]
        let logits = logits.broadcast_add(self.parameters["head.bias"].as_tensor())?;
        let log_probabilities = candle_nn::ops::log_softmax(&logits, 1)?;
        Ok(log_probabilities.gather(&targets.unsqueeze(1)?, 1)?.squeeze(1)?)
    }

    fn check_gradients(&self, _: &GradStore) -> Result<()> {
        Ok(())
    }
}

/// Trees of unequal lengths: tree `i` has answers that repeat token `i + 1`, or other tokens for the rejected ones.
pub fn trees(count: u32, rejected: u32) -> Vec<Tree> {
    let answer = |token: u32, length: u32| -> Vec<u32> { (0..length).map(|_| token).chain([0]).collect() };
    let tree = |index: u32| Tree {
        row_ids: (0..=rejected).map(|answer| format!("row:{index}/{answer}")).collect(),
        prompt: (0..=index % 3).map(|offset| 20 + offset).collect(),
        answers: (0..=rejected).map(|offset| answer(1 + (index + offset) % 18, 1 + (index + offset) % 5)).collect(),
    };
    (0..count).map(tree).collect()
}

/// Settings from the keys that a test is about; the others have a recipe's defaults.
pub fn settings(text: &str) -> TrainSettings {
    let table: toml::Table = text.parse().unwrap();
    let number = |key: &str| table.get(key).map(|value| value.as_float().unwrap());
    let count = |key: &str| {
        let whole = table.get(key).map(|value| value.as_integer().unwrap());
        whole.map(|value| NonZeroUsize::new(usize::try_from(value).unwrap()).unwrap())
    };
    let step_size = match count("tokens_per_step") {
        Some(tokens) => StepSize::Tokens(tokens),
        None => StepSize::Rows(count("rows_per_step").unwrap_or(defaults::ROWS_PER_STEP)),
    };
    TrainSettings {
        epochs: count("epochs").unwrap_or(defaults::EPOCHS),
        max_steps: count("max_steps"),
        step_size,
        weight_decay: number("weight_decay").map_or(Share::ZERO, |value| Share::try_from(value).unwrap()),
        max_tokens: count("max_tokens").unwrap_or(defaults::MAX_TOKENS),
        save_every: count("save_every").unwrap_or(defaults::SAVE_EVERY),
        order: table.get("order").map_or(RowOrder::Shuffled, |_| RowOrder::File),
        evaluate_every: count("evaluate_every"),
        patience: count("patience"),
        keep_checkpoints: count("keep_checkpoints").unwrap_or(defaults::KEEP_CHECKPOINTS),
        export: table.get("export").map_or(Export::Last, |_| Export::Best),
        memory_limit_mib: count("memory_limit_mib"),
        tokens_per_pass: count("tokens_per_pass"),
        ..TrainSettings::new(Positive::try_from(number("learning_rate").unwrap()).unwrap())
    }
}
