//! A model of this machine behind the same trait as an endpoint: it can stand in wherever one is asked.

use std::sync::{Mutex, PoisonError};

use candle_core::Device;

use super::{Ended, Prefix, Request, Sampler, decode_all};
use crate::dataset::{Message, Role};
use crate::device::Compute;
use crate::endpoint::{CallError, Chat, ChatMessage, ChatReply, ChatRequest, Counts, ReplyEnd};
use crate::error::{Error, Result};
use crate::model::{Decoder, ModelSource, Trainable};
use crate::recipe::settings::GenerateSettings;
use crate::run::seed::Seed;
use crate::token::ChatTokenizer;

/// A loaded model that chats.
pub struct LocalChat {
    name: String,
    decoder: Decoder,
    tokenizer: ChatTokenizer,
    counts: Mutex<Counts>,
}

impl LocalChat {
    /// Loads a folder, a `.gguf` file or a hub id to where it computes.
    ///
    /// # Errors
    /// A model that cannot be found or read.
    pub fn load(model: &str, compute: &Compute) -> Result<Self> {
        let local = ModelSource::parse(model)?.resolve()?;
        let (config, weights) = local.read(&Device::Cpu)?;
        let name =
            local.path.file_stem().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned());
        Ok(Self {
            name: format!("local:{name}"),
            tokenizer: ChatTokenizer::load(&local.path)?,
            decoder: Decoder::new(config, weights, &Trainable::Nothing, Seed(0), compute)?,
            counts: Mutex::default(),
        })
    }

    fn answer(&self, request: &ChatRequest) -> std::result::Result<ChatReply, CallError> {
        let local = |error: Error| match error {
            Error::Interrupted => CallError::Interrupted,
            // Without its text, which may name what was asked.
            Error::Invalid(_) => CallError::Local("the chat template refuses the conversation".to_owned()),
            _ => CallError::Local("decoding".to_owned()),
        };
        let messages = messages(&request.messages)?;
        let prompt = self.tokenizer.encode_prompt(&messages).map_err(local)?;
        let prompt_tokens = Some(prompt.len() as u64);
        let settings =
            GenerateSettings { temperature: request.temperature, top_p: request.top_p, ..GenerateSettings::default() };
        let sampler = Sampler::from_settings(&settings).map_err(local)?;
        let generator = Seed(request.seed.unwrap_or(0)).stream("chat");
        let request = Request { key: (), prompt, limit: request.token_limit, generator, prefix: Prefix::Own };
        let mut generated = None;
        let model = (&self.decoder, self.tokenizer.terminators());
        decode_all(model, sampler, 1, vec![request], |(), done| {
            generated = Some(done.clone());
            Ok(None)
        })
        .map_err(local)?;
        let generated = generated.ok_or_else(|| CallError::Local("nothing was decoded".to_owned()))?;
        let end = match generated.ended {
            Ended::Stop => ReplyEnd::Stop,
            Ended::Length => ReplyEnd::Length,
            Ended::Failed(reason) => return Err(CallError::Local(reason)),
        };
        let content = Some(self.tokenizer.decode(&generated.tokens).map_err(local)?);
        let completion_tokens = Some(generated.tokens.len() as u64);
        Ok(ChatReply { content, tool_calls: Vec::new(), end, prompt_tokens, completion_tokens })
    }
}

fn messages(turns: &[ChatMessage]) -> std::result::Result<Vec<Message>, CallError> {
    let turn = |turn: &ChatMessage| {
        let role = match turn.role.as_str() {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            _ => return Err(CallError::Local("tool turns are for endpoints".to_owned())),
        };
        Ok(Message { role, content: turn.content.clone().unwrap_or_default() })
    };
    turns.iter().map(turn).collect()
}

impl Chat for LocalChat {
    fn model(&self) -> &str {
        &self.name
    }

    fn chat(&self, request: &ChatRequest) -> std::result::Result<ChatReply, CallError> {
        let started = std::time::Instant::now();
        let outcome = self.answer(request);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.add_outcome(&outcome, started.elapsed());
        outcome
    }

    fn counts(&self) -> Counts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone().summed_up()
    }
}
