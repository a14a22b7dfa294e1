//! Claims about the client of chat endpoints, against a server that answers as scripted.

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;
use topalign::endpoint::{
    Address, Backoff, CallError, Chat, ChatMessage, ChatRequest, Client, EndpointSettings, JsonMode, KeyVariable,
    Prices, ReplyEnd, in_parallel, read_retry_after,
};
use topalign::error::Error;
use topalign::run::seed::Seed;

use crate::server::{Answer, Server, completion};

fn settings(url: &str) -> EndpointSettings {
    EndpointSettings {
        timeout_seconds: 5.0,
        retries: 3,
        first_wait_seconds: 0.01,
        longest_wait_seconds: 2.0,
        ..EndpointSettings::new(url.parse().unwrap(), "test-model")
    }
}

fn client(settings: EndpointSettings) -> Client {
    Client::new(settings, Seed(1)).unwrap()
}

fn request(text: &str) -> ChatRequest {
    ChatRequest::greedy(vec![ChatMessage::system("be brief"), ChatMessage::user(text)], 32)
}

/// Answers in the order of the list, the last one for ever.
fn scripted(answers: Vec<Answer>) -> Server {
    Server::start(move |number, _| answers[number.min(answers.len() - 1)].clone())
}

#[test]
fn a_request_carries_model_messages_and_limit_and_a_reply_its_text_end_and_tokens() {
    let server = scripted(vec![Answer::text("fine")]);
    let client = client(settings(&server.url));
    let reply = client.chat(&request("hello")).unwrap();
    assert_eq!((reply.whole(), reply.end), (Ok("fine"), ReplyEnd::Stop));
    assert_eq!((reply.prompt_tokens, reply.completion_tokens), (Some(7), Some(3)));
    let received = &server.received()[0];
    assert_eq!(received.path, "/v1/chat/completions");
    let expected = json!({"model": "test-model", "messages": [{"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"}], "max_tokens": 32, "temperature": 0.0});
    assert_eq!(received.body, expected);
    assert!(!received.headers.contains_key("authorization"), "no key was named");
    let counts = client.counts();
    assert_eq!((counts.requests, counts.calls, counts.retries, counts.failures), (1, 1, 0, 0));
    assert_eq!((counts.prompt_tokens, counts.completion_tokens, counts.uncounted_replies), (7, 3, 0));
    assert!(counts.median_seconds.is_some());
}

#[test]
fn json_is_asked_for_as_the_endpoint_takes_it() {
    let schema = json!({"type": "object"});
    for (mode, expected) in [
        (JsonMode::Prompt, None),
        (JsonMode::Object, Some(json!({"type": "json_object"}))),
        (JsonMode::ObjectSchema, Some(json!({"type": "json_object", "schema": schema}))),
        (
            JsonMode::Schema,
            Some(json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}})),
        ),
    ] {
        let server = scripted(vec![Answer::text("{}")]);
        let client = client(EndpointSettings { json_mode: mode, ..settings(&server.url) });
        client.chat(&request("x").for_json(schema.clone())).unwrap();
        client.chat(&request("x")).unwrap();
        let received = server.received();
        assert_eq!(received[0].body.get("response_format"), expected.as_ref(), "{mode:?}");
        assert_eq!(received[1].body.get("response_format"), None, "{mode:?}");
    }
}

#[test]
fn base_urls_are_taken_with_and_without_their_version() {
    for (given, expected) in [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1/chat/completions"),
        ("https://host/v1", "https://host/v1/chat/completions"),
        ("https://host/v1/", "https://host/v1/chat/completions"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions"),
        ("https://host/v1//chat/completions/chat/completions/", "https://host/v1/chat/completions"),
        ("https://host/api/v1", "https://host/api/v1/chat/completions"),
        ("https://host/api", "https://host/api/v1/chat/completions"),
        ("https://host/v1beta/openai", "https://host/v1beta/openai/chat/completions"),
        ("http://[::1]:80", "http://[::1]:80/v1/chat/completions"),
    ] {
        let address: Address = given.parse().unwrap();
        assert_eq!(address.chat_completions(), expected, "{given}");
        assert_eq!(address.to_string().parse::<Address>().unwrap(), address, "what is written reads back");
    }
    for wrong in [
        "",
        "host",
        "ftp://host",
        "http://",
        "http://me:sk-secret@host",
        "https://host/?key=sk-secret",
        "https://host/#x",
    ] {
        let fault = wrong.parse::<Address>().unwrap_err();
        assert!(!format!("{fault:?}").contains("sk-secret"), "{fault:?}");
    }
}

#[test]
fn plain_http_is_open_except_within_this_machine() {
    for (url, open) in [
        ("http://127.0.0.1", false),
        ("http://[::1]", false),
        ("http://localhost:1", false),
        ("https://host", false),
        ("http://host", true),
        ("http://localhost.example", true),
        ("http://10.0.0.1", true),
    ] {
        assert_eq!(url.parse::<Address>().unwrap().is_open(), open, "{url}");
    }
}

#[test]
fn too_many_requests_are_retried_after_the_seconds_that_the_server_names() {
    let busy = Answer::Send(429, vec![("retry-after", "1".to_owned())], String::new());
    let server = scripted(vec![busy, Answer::text("fine")]);
    let client = client(settings(&server.url));
    let started = Instant::now();
    assert_eq!(client.chat(&request("x")).unwrap().whole(), Ok("fine"));
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    let counts = client.counts();
    assert_eq!((counts.requests, counts.calls, counts.retries, counts.failures), (1, 2, 1, 0));
}

#[test]
fn a_server_that_asks_for_more_patience_than_the_limit_is_not_waited_for() {
    let server = scripted(vec![Answer::Send(429, vec![("retry-after", "3600".to_owned())], String::new())]);
    let client = client(settings(&server.url));
    let error = client.chat(&request("x")).unwrap_err();
    assert_eq!(error.to_string(), "status 429, to be retried after 3600 s");
    assert_eq!(client.counts().calls, 1);
}

#[test]
fn failing_servers_garbage_and_cut_bodies_are_retried_and_then_reported() {
    let garbage = Answer::Send(200, Vec::new(), "<html>busy</html>".to_owned());
    for (bad, expected) in [
        (Answer::status(500), "status 500"),
        (Answer::status(503), "status 503"),
        (garbage, "the reply is not JSON"),
        (Answer::Cut(completion("half", "stop").to_string()), "the reply's body was cut"),
    ] {
        let server = scripted(vec![bad.clone(), bad.clone(), Answer::text("fine")]);
        let recovering = client(settings(&server.url));
        assert_eq!(recovering.chat(&request("x")).unwrap().whole(), Ok("fine"), "{expected}");
        assert_eq!(recovering.counts().retries, 2, "{expected}");

        let server = scripted(vec![bad]);
        let failing = client(settings(&server.url));
        assert_eq!(failing.chat(&request("x")).unwrap_err().to_string(), expected);
        let counts = failing.counts();
        assert_eq!((counts.calls, counts.retries, counts.failures), (4, 3, 1), "{expected}");
    }
}

#[test]
fn a_refused_request_is_not_repeated() {
    for status in [400, 401, 403, 404, 422] {
        let server = scripted(vec![Answer::status(status)]);
        let client = client(settings(&server.url));
        assert_eq!(client.chat(&request("x")).unwrap_err().to_string(), format!("status {status}"));
        assert_eq!(server.received().len(), 1, "{status}");
    }
}

#[test]
fn a_slow_server_is_a_timeout() {
    let server = scripted(vec![Answer::Silence(Duration::from_secs(5))]);
    let client = client(EndpointSettings { timeout_seconds: 0.2, retries: 0, ..settings(&server.url) });
    let started = Instant::now();
    assert_eq!(client.chat(&request("x")), Err(CallError::Timeout(Duration::from_millis(200))));
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[test]
fn no_server_is_a_connection_error() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = client(EndpointSettings { retries: 1, ..settings(&format!("http://127.0.0.1:{port}")) });
    let error = client.chat(&request("x")).unwrap_err();
    assert!(matches!(error, CallError::Connection(_)), "{error:?}");
    assert_eq!(client.counts().calls, 2);
}

#[test]
fn a_server_without_tls_behind_an_https_address_is_a_connection_error() {
    let server = scripted(vec![Answer::text("fine")]);
    let url = server.url.replace("http://", "https://");
    let client = client(EndpointSettings { retries: 0, ..settings(&url) });
    let error = client.chat(&request("x")).unwrap_err();
    assert!(matches!(error, CallError::Connection(_)), "{error:?}");
    assert!(server.received().is_empty(), "the request was readable");
}

#[test]
fn an_endpoint_that_fails_every_request_is_asked_no_more() {
    let server = scripted(vec![Answer::status(401)]);
    let client = client(settings(&server.url));
    let errors: Vec<CallError> = (0..20).map(|_| client.chat(&request("x")).unwrap_err()).collect();
    assert_eq!(server.received().len(), 8);
    assert_eq!(errors[19].to_string(), "given up after 8 failed requests in a row: status 401");
    assert_eq!(client.counts().failures, 20);
}

#[test]
fn replies_that_are_not_whole_have_no_whole_text() {
    let cut = completion("{\"answer\": \"y", "length").to_string();
    let silent = json!({"choices": [{"message": {"content": "text"}}]}).to_string();
    let empty = json!({"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}).to_string();
    let filtered = completion("", "content_filter").to_string();
    for (body, expected) in [
        (cut, "the reply was cut at the token limit"),
        (silent, "the reply is incomplete: it does not say how it ended"),
        (empty, "the reply is incomplete: no text"),
        (filtered, "the endpoint filtered the reply"),
    ] {
        let server = scripted(vec![Answer::Send(200, Vec::new(), body)]);
        let reply = client(settings(&server.url)).chat(&request("x")).unwrap();
        assert_eq!(reply.whole().unwrap_err().to_string(), expected);
    }
}

#[test]
fn json_of_another_form_is_an_error() {
    for body in ["{}", "[]", "null", r#"{"choices": []}"#, r#"{"choices": [{"message": {"content": 7}}]}"#] {
        let server = scripted(vec![Answer::Send(200, Vec::new(), body.to_owned())]);
        let error = client(settings(&server.url)).chat(&request("x")).unwrap_err();
        assert!(matches!(error, CallError::WrongForm(_)), "{body}: {error:?}");
    }
}

/// The only test that sets a variable of the environment; nothing else reads it.
#[test]
fn the_key_goes_to_the_endpoint_alone_and_is_in_no_error_nor_cache() {
    const KEY: &str = "sk-test-0123456789";
    // SAFETY: no other thread of this binary reads or writes this variable.
    unsafe { std::env::set_var("TOPALIGN_TEST_KEY", KEY) };
    let other = scripted(vec![Answer::text("stolen")]);
    let (elsewhere, folder) = (other.url.clone(), tempfile::tempdir().unwrap());
    let server = Server::start(move |number, _| match number {
        0 => Answer::Send(307, vec![("location", format!("{elsewhere}/v1/chat/completions"))], String::new()),
        1 => Answer::Send(302, vec![("location", elsewhere.clone())], String::new()),
        2 => {
            let error =
                json!({"error": {"message": format!("bad key {KEY}"), "code": KEY, "type": "invalid_request_error"}});
            Answer::Send(401, Vec::new(), error.to_string())
        }
        _ => Answer::text("fine"),
    });
    let settings = EndpointSettings {
        key_env: Some("TOPALIGN_TEST_KEY".parse().unwrap()),
        cache: Some(folder.path().to_path_buf()),
        ..settings(&server.url)
    };
    assert!(!format!("{:?}", client(settings.clone())).contains(KEY));
    assert!(!serde_json::to_string(&settings).unwrap().contains(KEY));
    let client = client(settings);
    let errors: Vec<CallError> = (0..3).map(|_| client.chat(&request("x")).unwrap_err()).collect();
    assert_eq!(errors[..2], [CallError::Redirect(307), CallError::Redirect(302)]);
    assert_eq!(errors[2].to_string(), "status 401 (invalid_request_error)");
    assert!(!format!("{errors:?}").contains(KEY));
    client.chat(&request("x")).unwrap();
    for received in server.received() {
        assert_eq!(received.headers.get("authorization"), Some(&format!("Bearer {KEY}")));
    }
    assert!(other.received().is_empty(), "the redirect was followed");
    for (path, content) in files(folder.path()) {
        assert!(!path.contains(KEY) && !content.contains(KEY), "{path}");
    }
}

fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

#[test]
fn a_key_variable_is_a_name_and_an_unset_one_is_a_fault() {
    for wrong in ["sk-0123", "sk_0123", "", "A B", "1A"] {
        let fault = wrong.parse::<KeyVariable>().unwrap_err();
        assert!(wrong.is_empty() || !format!("{fault:?}").contains(wrong), "{fault:?}");
    }
    let key_env = Some("TOPALIGN_TEST_UNSET".parse().unwrap());
    let error = Client::new(EndpointSettings { key_env, ..settings("http://127.0.0.1:1") }, Seed(1)).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(error.to_string().contains("`TOPALIGN_TEST_UNSET`"), "{error}");
}

#[test]
fn a_question_is_asked_once_and_another_model_or_limit_is_another_question() {
    let (server, folder) = (scripted(vec![Answer::text("fine")]), tempfile::tempdir().unwrap());
    let cached = EndpointSettings { cache: Some(folder.path().to_path_buf()), ..settings(&server.url) };
    let first = client(cached.clone());
    let reply = first.chat(&request("x")).unwrap();
    let second = client(cached.clone());
    assert_eq!(second.chat(&request("x")).unwrap(), reply);
    let counts = second.counts();
    assert_eq!((counts.requests, counts.calls, counts.cache_hits, counts.prompt_tokens), (1, 0, 1, 0));
    second.chat(&request("y")).unwrap();
    second.chat(&ChatRequest { token_limit: 33, ..request("x") }).unwrap();
    client(EndpointSettings { model: "other".to_owned(), ..cached }).chat(&request("x")).unwrap();
    assert_eq!(server.received().len(), 4);
    for (path, content) in files(folder.path()) {
        assert!(!content.contains("be brief"), "{path} holds the question");
    }
}

#[test]
fn cost_is_that_of_the_counted_tokens_and_absent_where_a_reply_was_not_counted() {
    let uncounted = json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}).to_string();
    let server = scripted(vec![Answer::text("fine"), Answer::text("fine"), Answer::Send(200, Vec::new(), uncounted)]);
    let prices = "2, 10".parse().unwrap();
    assert_eq!(prices, Prices { prompt: 2.0, reply: 10.0 });
    let client = client(EndpointSettings { prices: Some(prices), ..settings(&server.url) });
    client.chat(&request("a")).unwrap();
    client.chat(&request("b")).unwrap();
    let cost = client.counts().cost.unwrap();
    assert!((cost - (2.0 * 14.0 + 10.0 * 6.0) / 1e6).abs() < 1e-12, "{cost}");
    client.chat(&request("c")).unwrap();
    assert_eq!((client.counts().cost, client.counts().uncounted_replies), (None, 1));
    for wrong in ["", "1", "a,b", "1;2"] {
        wrong.parse::<Prices>().unwrap_err();
    }
}

#[test]
fn a_damaged_cache_file_is_counted_and_asked_anew() {
    let (server, folder) = (scripted(vec![Answer::text("fine")]), tempfile::tempdir().unwrap());
    let cached = EndpointSettings { cache: Some(folder.path().to_path_buf()), ..settings(&server.url) };
    client(cached.clone()).chat(&request("x")).unwrap();
    let (path, content) = files(folder.path()).remove(0);
    std::fs::write(&path, &content[..content.len() / 2]).unwrap();
    let client = client(cached);
    client.chat(&request("x")).unwrap();
    let counts = client.counts();
    assert_eq!((counts.cache_damaged, counts.cache_hits, counts.calls), (1, 0, 1));
    assert_eq!(std::fs::read_to_string(path).unwrap(), content);
}

#[test]
fn an_unwritable_cache_costs_no_reply() {
    let (server, folder) = (scripted(vec![Answer::text("fine")]), tempfile::tempdir().unwrap());
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let client = client(EndpointSettings { cache: Some(file), ..settings(&server.url) });
    assert_eq!(client.chat(&request("x")).unwrap().whole(), Ok("fine"));
}

#[test]
fn calls_are_spaced_by_the_rate_whatever_the_concurrency() {
    let server = scripted(vec![Answer::text("fine")]);
    let client = client(EndpointSettings { requests_per_minute: Some(600.0), ..settings(&server.url) });
    let started = Instant::now();
    let texts: Vec<String> = (0..5).map(|index| index.to_string()).collect();
    in_parallel(
        5,
        &texts,
        |text| client.chat(&request(text)),
        |_, reply| {
            reply.unwrap();
            Ok(())
        },
    )
    .unwrap();
    assert!(started.elapsed() >= Duration::from_millis(395), "{:?}", started.elapsed());
}

#[test]
fn as_many_requests_are_under_way_as_workers_and_every_result_has_its_index() {
    let (running, most) = (std::sync::atomic::AtomicUsize::new(0), std::sync::atomic::AtomicUsize::new(0));
    let items: Vec<usize> = (0..12).collect();
    let mut squares = vec![0; items.len()];
    let work = |item: &usize| {
        let now = running.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        most.fetch_max(now, std::sync::atomic::Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        item * item
    };
    in_parallel(3, &items, work, |index, square| {
        squares[index] = square;
        Ok(())
    })
    .unwrap();
    assert_eq!(squares, items.iter().map(|item| item * item).collect::<Vec<_>>());
    assert_eq!(most.into_inner(), 3);
}

#[test]
fn a_failing_receiver_ends_the_work_with_its_error() {
    let items: Vec<usize> = (0..1000).collect();
    let begun = std::sync::atomic::AtomicUsize::new(0);
    let work = |_: &usize| begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let outcome = in_parallel(
        2,
        &items,
        |item| {
            std::thread::sleep(Duration::from_millis(1));
            work(item)
        },
        |_, _| Err(Error::Failed("disk full".to_owned())),
    );
    assert_eq!(outcome.unwrap_err().to_string(), "disk full");
    assert!(begun.into_inner() < 1000);
}

#[test]
fn retry_after_is_seconds_or_a_date_and_the_past_is_now() {
    let now: jiff::Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    for (text, expected) in [
        ("7", Some(7.0)),
        (" 0 ", Some(0.0)),
        ("1.5", Some(1.5)),
        ("Sun, 01 Mar 2026 12:00:30 GMT", Some(30.0)),
        ("Sun, 01 Mar 2026 11:00:00 GMT", Some(0.0)),
        ("-3", None),
        ("NaN", None),
        ("inf", None),
        ("soon", None),
        ("", None),
    ] {
        assert_eq!(read_retry_after(text, now).map(|wait| wait.as_secs_f64()), expected, "{text}");
    }
}

#[test]
fn out_of_range_settings_are_all_named_at_once() {
    let settings = EndpointSettings {
        model: " ".to_owned(),
        timeout_seconds: f64::NAN,
        requests_per_minute: Some(0.0),
        concurrency: 0,
        ..settings("http://127.0.0.1:1")
    };
    let faults: Vec<String> = settings.faults("judge").iter().map(ToString::to_string).collect();
    for key in ["judge.model", "judge.timeout_seconds", "judge.requests_per_minute", "judge.concurrency"] {
        assert!(faults.iter().any(|fault| fault.contains(key)), "{key}: {faults:?}");
    }
    assert_eq!(faults.len(), 4);
}

proptest! {
    #[test]
    fn waits_grow_within_half_to_whole_of_the_doubled_time_and_never_pass_the_limit(
        retry in 0_u32..40, jitter in 0.0_f64..1.0, first in 0.001_f64..5.0, longest in 0.001_f64..100.0,
    ) {
        let backoff = Backoff { first: Duration::from_secs_f64(first), longest: Duration::from_secs_f64(longest) };
        let wait = backoff.wait(retry, jitter, None).unwrap().as_secs_f64();
        let doubled = (first * 2.0_f64.powi(retry.min(20) as i32)).min(longest);
        prop_assert!(wait <= doubled + 1e-6 && wait >= doubled * 0.5 - 1e-6, "{} of {}", wait, doubled);
    }

    #[test]
    fn no_retry_after_header_panics(text in "\\PC{0,40}") {
        let _ = read_retry_after(&text, jiff::Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn no_url_panics(text in "\\PC{0,60}") {
        let _ = text.parse::<Address>();
    }
}
