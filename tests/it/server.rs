//! A small HTTP server that answers as a script says and keeps what it received.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// One request.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Status, more headers, body.
    Send(u16, Vec<(&'static str, String)>, String),
    /// Announces more bytes than it sends.
    Cut(String),
    /// Sends nothing for so long, then closes.
    Silence(Duration),
}

impl Answer {
    pub fn status(status: u16) -> Self {
        Self::Send(status, Vec::new(), String::new())
    }

    /// A whole chat completion with this text.
    pub fn text(text: &str) -> Self {
        Self::completion(text, "stop")
    }

    pub fn completion(text: &str, finish: &str) -> Self {
        Self::Send(200, Vec::new(), completion(text, finish).to_string())
    }
}

pub fn completion(text: &str, finish: &str) -> Value {
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}})
}

pub struct Server {
    pub url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Answers request number `n` (from 0) with `script(n, request)`, each on a thread of its own.
    pub fn start(script: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let (script, kept) = (Arc::new(script), Arc::clone(&received));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, kept) = (Arc::clone(&script), Arc::clone(&kept));
                std::thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    let number = {
                        let mut kept = kept.lock().unwrap();
                        kept.push(request.clone());
                        kept.len() - 1
                    };
                    answer(&stream, &script(number, &request));
                });
            }
        });
        Self { url, received }
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Received { path, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

fn answer(mut stream: &TcpStream, answer: &Answer) {
    let head = |status: u16, length: usize| {
        format!(
            "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n"
        )
    };
    let text = match answer {
        Answer::Send(status, headers, body) => {
            let more: String = headers.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
            format!("{}{more}\r\n{body}", head(*status, body.len()))
        }
        Answer::Cut(body) => format!("{}\r\n{body}", head(200, body.len() + 100)),
        Answer::Silence(pause) => {
            std::thread::sleep(*pause);
            return;
        }
    };
    // The client may be gone already: that is what some tests are about.
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.flush();
}
