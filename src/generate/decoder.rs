//! The decoder as a source of next tokens.

use super::NextToken;
use crate::error::Result;
use crate::model::{Decoder, KeyValueCache, Step};

impl NextToken for Decoder {
    type Cache = KeyValueCache;

    fn context_length(&self) -> usize {
        self.config().context
    }

    fn start(&self, prompt: &[u32]) -> Result<(KeyValueCache, Vec<f32>)> {
        let mut cache = KeyValueCache::default();
        let logits = self.decode(&mut [Step { tokens: prompt, cache: &mut cache }])?; // [1, vocabulary]
        Ok((cache, logits.flatten_all()?.to_vec1()?))
    }

    fn advance(&self, caches: &mut [&mut KeyValueCache], tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        let steps = caches.iter_mut().zip(tokens);
        let mut steps: Vec<Step<'_>> =
            steps.map(|(cache, token)| Step { tokens: std::slice::from_ref(token), cache }).collect();
        Ok(self.decode(&mut steps)?.to_vec2()?) // [sequences, vocabulary]
    }
}
