use super::*;

fn render(source: &str, messages: &[Message]) -> Result<String> {
    let special = SpecialTokens::from([("bos_token".to_owned(), "<s>".to_owned())]);
    ChatTemplate::compile(source, special, "template")?.render(messages, Ending::GenerationPrompt)
}

#[derive(serde::Deserialize)]
struct Goldens {
    templates: Vec<Golden>,
}

#[derive(serde::Deserialize)]
struct Golden {
    name: String,
    source: String,
    messages: Vec<Message>,
    add_generation_prompt: bool,
    text: Option<String>,
    error: Option<String>,
}

#[test]
fn renderings_equal_those_of_transformers() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/token/goldens.json");
    let goldens: Goldens = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(goldens.templates.len() > 30);
    let special = SpecialTokens::from([("bos_token".into(), "<s>".into()), ("eos_token".into(), "</s>".into())]);
    for golden in goldens.templates {
        let template = ChatTemplate::compile(&golden.source, special.clone(), "template").unwrap();
        let ending = if golden.add_generation_prompt { Ending::GenerationPrompt } else { Ending::Conversation };
        match (template.render(&golden.messages, ending), golden.text) {
            (Ok(text), Some(expected)) => assert_eq!(text, expected, "{}", golden.name),
            (Err(error), None) => assert!(error.to_string().contains(&golden.error.unwrap()), "{error}"),
            (rendered, expected) => panic!("{}: {rendered:?} but transformers {expected:?}", golden.name),
        }
    }
}

#[derive(serde::Deserialize)]
struct Renderings {
    tokens: SpecialTokens,
    conversations: std::collections::BTreeMap<String, Conversation>,
    cases: Vec<Case>,
    /// Texts of templates, where they are not files of their own.
    #[serde(default)]
    sources: std::collections::BTreeMap<String, String>,
}

#[derive(serde::Deserialize)]
struct Conversation {
    messages: serde_json::Value,
    tools: serde_json::Value,
}

#[derive(serde::Deserialize)]
struct Case {
    template: String,
    conversation: String,
    add_generation_prompt: bool,
    variables: serde_json::Value,
    text: Option<String>,
    /// In characters.
    #[serde(default)]
    spans: Vec<(usize, usize)>,
}

/// Cases of `tests/golden/make_templates.py`, whose day is fixed.
fn golden_cases() -> Renderings {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/templates");
    let more = std::env::var_os("TOPALIGN_TEMPLATE_CASES").map(std::path::PathBuf::from);
    let mut cases: Renderings =
        serde_json::from_slice(&std::fs::read(more.unwrap_or_else(|| folder.join("cases.json"))).unwrap()).unwrap();
    for case in &cases.cases {
        let source = || std::fs::read_to_string(folder.join(format!("{}.jinja", case.template))).unwrap();
        cases.sources.entry(case.template.clone()).or_insert_with(source);
    }
    cases
}

fn given(conversation: &Conversation, case: &Case) -> Given {
    let day = |format: &str| jiff::fmt::strtime::format(format, jiff::civil::date(2026, 3, 4).at(5, 6, 7, 0)).unwrap();
    Given {
        messages: Value::from(Serde(conversation.messages.clone())),
        tools: Value::from(Serde(conversation.tools.clone())),
        variables: minijinja::context! {
            strftime_now => Value::from_function(day),
            ..Value::from(Serde(case.variables.clone())),
        },
    }
}

/// What differs from transformers, or nothing.
fn difference(template: &ChatTemplate, given: &Given, case: &Case) -> Option<String> {
    let ending = if case.add_generation_prompt { Ending::GenerationPrompt } else { Ending::Conversation };
    let text = match (template.render_given(given, ending, false), &case.text) {
        (Ok(text), Some(expected)) if text == *expected => text,
        (Err(_), None) => return None,
        (found, expected) => return Some(format!("\n  found    {found:?}\n  expected {expected:?}")),
    };
    let marked = template.render_marked_given(given, ending);
    let found = match &marked {
        Ok(marked) => marked.as_ref().map_or(&[][..], |marked| &marked.spans[..]),
        Err(error) => return Some(error.to_string()),
    };
    let characters = |byte: usize| text[..byte].chars().count();
    let found: Vec<(usize, usize)> = found.iter().map(|span| (characters(span.start), characters(span.end))).collect();
    (found != case.spans).then(|| format!("spans {found:?}, expected {:?}", case.spans))
}

#[test]
fn real_templates_render_tools_calls_thoughts_and_marks_byte_for_byte_as_transformers_does() {
    let Renderings { tokens, conversations, cases, sources } = golden_cases();
    let mut failures = Vec::new();
    for case in &cases {
        let name = format!("{}, {}", case.template, case.conversation);
        let template = match ChatTemplate::compile(&sources[&case.template], tokens.clone(), &case.template) {
            Ok(template) => template,
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        if let Some(difference) = difference(&template, &given(&conversations[&case.conversation], case), case) {
            failures.push(format!("{name}: {difference}"));
        }
    }
    let marked = cases.iter().filter(|case| !case.spans.is_empty()).count();
    println!("{} templates, {} renderings, {marked} with marks", sources.len(), cases.len());
    assert!(sources.len() > 20 && marked > 20);
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn generation_marks_parse_and_keep_their_white_space_control() {
    let source = "{% for m in messages %}[ {%- generation -%} \n {{ m.content }} {% endgeneration %}]{% endfor %}";
    assert_eq!(render(source, &[Message::assistant("a")]).unwrap(), "[a ]");
}

#[test]
fn loops_can_break_and_continue() {
    let source = "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}";
    let messages = [Message::user("a"), Message::user("b"), Message::user("c")];
    assert_eq!(render(source, &messages).unwrap(), "b");
}

#[test]
fn raised_exceptions_are_faults_with_the_template_words() {
    let fault = render("{{ raise_exception('no system turn') }}", &[]).unwrap_err();
    assert!(fault.to_string().contains("no system turn"), "{fault}");
    assert_eq!(fault.exit_status(), 2);
}

#[test]
fn absent_special_tokens_and_tools_behave_as_in_transformers() {
    let source = "{{ eos_token }}|{{ tools is none }}|{{ add_generation_prompt }}|{{ strftime_now('%Y') | length }}";
    assert_eq!(render(source, &[]).unwrap(), "|True|True|4");
}

#[test]
fn python_string_methods_work() {
    let source = "{{ messages[0].content.strip().split('</think>')[-1].lstrip('\\n') }}";
    assert_eq!(render(source, &[Message::user(" x</think>\n\ny ")]).unwrap(), "y");
}

#[test]
fn templates_that_do_not_parse_are_faults() {
    assert_eq!(render("{% if %}", &[]).unwrap_err().exit_status(), 2);
}
