//! What is said about the host.

use crate::server::{Server, status};
use crate::support::Stop;
use crate::support::need::need;
use crate::support::seccomp::without_user_namespaces;
use crate::{AGENTKIT, agentkit, check_code, on_host, stderr, stdout};
use serde_json::{Value, json};
use std::process::Command;

pub(crate) fn a_healthy_host_is_ready() -> Result<(), Stop> {
    need("userns")?;
    need("seccomp")?;
    need("python")?;
    let output = agentkit(["doctor"]).output()?;
    check_code(&output, 0);
    let text = stdout(&output);
    for words in [
        "sandbox   namespaces",
        "  network_blocked       full",
        "in the sandbox",
        "not configured",
        "\nready: ",
    ] {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    let output = agentkit(["doctor", "--json"]).output()?;
    check_code(&output, 0);
    let report: Value = serde_json::from_str(&stdout(&output))?;
    assert_eq!((&report["ready"], &report["problems"]), (&json!(true), &json!([])));
    assert_eq!(report["sandbox"]["controls"]["filesystem_confined"], "full");
    assert_eq!(report["endpoint"]["configured"], false);
    Ok(())
}

pub(crate) fn a_host_without_namespaces_is_not() -> Result<(), Stop> {
    need("seccomp")?;
    need("python")?;
    let words = without_user_namespaces();
    let host = || {
        let mut host = Command::new(&words[0]);
        host.args(&words[1..]).arg(AGENTKIT);
        host
    };
    let output = on_host(host(), ["doctor"]).output()?;
    check_code(&output, 1);
    let text = stdout(&output);
    assert!(text.contains("sandbox   none") && text.contains("\nproblem: sandbox: "), "{text}");
    assert!(text.contains("\n  what to do: "), "{text}");
    let output = on_host(host(), ["doctor", "--json"]).output()?;
    check_code(&output, 1);
    let report: Value = serde_json::from_str(&stdout(&output))?;
    assert_eq!(report["ready"], false);
    assert!(report["sandbox"]["failure"]["step"].is_string(), "{report}");
    assert!(report["problems"][0]["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{report}");
    Ok(())
}

pub(crate) fn the_endpoint_is_asked_if_wanted() -> Result<(), Stop> {
    let models = r#"{"object":"list","data":[{"id":"small","object":"model"},{"id":"large\u001b[2J"}]}"#;
    let server = Server::start(vec![
        status("200 OK", "application/json", models),
        status("404 Not Found", "text/html", "<h1>not here</h1>"),
        status("200 OK", "application/json", "[]"),
    ])?;
    let ask = || {
        let mut command = agentkit(["doctor", "--endpoint"]);
        command.env("OPENAI_BASE_URL", server.url()).output()
    };
    let output = ask()?;
    assert!(stdout(&output).contains("the endpoint has small, large\\u{1b}[2J\n"), "{}", stdout(&output));
    assert!(server.request().starts_with("GET /v1/models HTTP/1.1\r\n"));
    for words in ["status 404", "no list of models"] {
        let output = ask()?;
        check_code(&output, 1);
        let text = stdout(&output) + &stderr(&output);
        assert!(text.contains(words) && text.contains("OPENAI_BASE_URL"), "{text}");
    }
    let output = agentkit(["doctor", "--endpoint"]).output()?;
    check_code(&output, 1);
    assert!(stdout(&output).contains("no endpoint: name a server"), "{}", stdout(&output));
    let output = agentkit(["doctor", "--endpoint", "--base-url", "http://127.0.0.1:9"]).output()?;
    check_code(&output, 1);
    Ok(())
}
