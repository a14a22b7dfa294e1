//! The model card, `README.md` of an exported folder.

/// What the card says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCard {
    /// Hub id or name of the model that was trained.
    pub base_model: String,
    /// What the folder holds.
    pub content: CardContent,
    /// Training stage, e.g. `sft`.
    pub stage: String,
    /// Names of the data sets.
    pub datasets: Vec<String>,
    /// Facts for the table: name and value.
    pub facts: Vec<(String, String)>,
}

/// What an exported folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardContent {
    /// A whole model.
    Model,
    /// A PEFT adapter.
    Adapter,
}

impl ModelCard {
    /// The Markdown text with its metadata block. Strings are written as JSON, which YAML reads.
    pub fn render(&self) -> String {
        let quote = |text: &str| serde_json::Value::from(text).to_string();
        let (library, noun) = match self.content {
            CardContent::Model => ("transformers", "model"),
            CardContent::Adapter => ("peft", "LoRA adapter"),
        };
        let mut text = format!(
            "---\nbase_model: {}\nlibrary_name: {library}\npipeline_tag: text-generation\ntags:\n- topalign\n- {}\n",
            quote(&self.base_model),
            quote(&self.stage),
        );
        if !self.datasets.is_empty() {
            text.push_str("datasets:\n");
            text.extend(self.datasets.iter().map(|dataset| format!("- {}\n", quote(dataset))));
        }
        let title = format!(
            "---\n\n# {} of {} by topalign\n\nA {noun} trained to finish tool-use tasks without stating what the combined \
             tool results reveal.\n\n| | |\n|---|---|\n",
            self.stage.to_uppercase(),
            self.base_model
        );
        text.push_str(&title);
        text.extend(self.facts.iter().map(|(name, value)| format!("| {name} | {value} |\n")));
        text
    }
}
