//! Requests that are refused: wrong fields, foreign pages, missing tokens.

use super::port::{port, port_with};
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_field() {
    let port = port_with(None, Err("the history is full".into()), Bounds::default()).await;
    let ok = format!("run={ENCODED}&split=val");
    let cases = [
        ("/api/v1/nothing".to_owned(), 404, "path"),
        ("/assets/nothing.js".into(), 404, "path"),
        ("/assets/index.html".into(), 404, "path"),
        ("/assets/..%2fCargo.toml".into(), 404, "path"),
        ("/assets/views/../../Cargo.toml".into(), 404, "path"),
        ("/assets/views".into(), 404, "path"),
        ("/ready".into(), 503, "ready"),
        ("/metrics?x=1".into(), 400, "x"),
        ("/api/v1/status?verbose=1".into(), 400, "verbose"),
        ("/api/v1/events?run=a".into(), 400, "run"),
        ("/api/v1/series".into(), 400, "run"),
        (format!("/api/v1/series?run={ENCODED}"), 400, "split"),
        (format!("/api/v1/series?{ok}"), 400, "score"),
        (format!("/api/v1/series?{ok}&score=icl&from=1"), 400, "from"),
        (format!("/api/v1/series?{ok}&score=icl&score=ctl"), 400, "score"),
        (format!("/api/v1/series?{ok}&score=icl&first_step=-1"), 400, "first_step"),
        (format!("/api/v1/series?{ok}&score=icl&last_step=x"), 400, "last_step"),
        (format!("/api/v1/series?{ok}&score=nothing"), 404, "score"),
        (format!("/api/v1/series?{ok}&score=icl&concept=z"), 404, "concept"),
        (format!("/api/v1/series?run={ENCODED}&split=test&score=icl"), 404, "split"),
        ("/api/v1/point?split=val".into(), 400, "run"),
        ("/api/v1/point?run=other&split=val".into(), 404, "run"),
        ("/api/v1/point?run=%27%3B%20DROP%20TABLE%20run%3B--&split=%00".into(), 404, "run"),
        ("/api/v1/point?run=%ff%fe&split=val".into(), 404, "run"),
        (format!("/api/v1/point?run={ENCODED}&split=train"), 404, "split"),
        (format!("/api/v1/point?run={ENCODED}&split=test"), 404, "split"),
        (format!("/api/v1/point?{ok}&step=3"), 404, "step"),
        (format!("/api/v1/point?{ok}&step=18446744073709551615"), 404, "step"),
        (format!("/api/v1/point?{ok}&step=18446744073709551616"), 400, "step"),
        (format!("/api/v1/matrix?{ok}&score=icl&step=9"), 404, "step"),
        (format!("/api/v1/matrix?{ok}&score=%3Cscript%3E"), 404, "score"),
        ("/api/v1/overview".into(), 400, "split"),
        ("/api/v1/overview?split=val&runs=1".into(), 400, "runs"),
        ("/api/v1/overview?split=val&run=%00".into(), 404, "run"),
        (format!("/api/v1/curves?{ok}"), 400, "scores"),
        (format!("/api/v1/curves?{ok}&scores=icl,nothing"), 404, "score"),
        (format!("/api/v1/curves?{ok}&scores=icl&first_step=-1"), 400, "first_step"),
        ("/api/v1/curves?run=%00&split=val&scores=icl".into(), 404, "run"),
        (format!("/api/v1/concepts?{ok}&score=nothing"), 404, "score"),
        (format!("/api/v1/concepts?run={ENCODED}&split=test&score=icl"), 404, "split"),
        ("/api/v1/diagnosis".into(), 400, "run"),
        (format!("/api/v1/diagnosis?run={ENCODED}"), 400, "split"),
        (format!("/api/v1/diagnosis?{ok}&step=1"), 400, "step"),
        (format!("/api/v1/diagnosis?run={ENCODED}&split=test"), 404, "split"),
        ("/api/v1/diagnosis?run=%ff&split=val".into(), 404, "run"),
        ("/api/v1/compare".into(), 400, "run_a"),
        (format!("/api/v1/compare?run_a={ENCODED}&run_b=%00"), 404, "run_b"),
    ];
    for (path, status, field) in cases {
        let reply = port.get(&path).await;
        assert_eq!((reply.status, reply.field().as_str()), (status, field), "{path}");
        assert_eq!(reply.headers["x-content-type-options"], "nosniff", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_origins_and_methods_are_refused() {
    let port = port().await;
    let own = format!("Host: {}\r\nOrigin: http://{}\r\n", port.address, port.address);
    let cases = [
        ("GET", own.as_str(), 200, ""),
        ("HEAD", "Host: [::1]:7801\r\n", 200, ""),
        ("GET", "Host: BOX.example\r\nOrigin: https://box.example\r\n", 200, ""),
        ("GET", "", 403, "Host"),
        ("GET", "Host: evil.example\r\n", 403, "Host"),
        ("GET", "Host: localhost\r\nHost: evil.example\r\n", 403, "host"),
        ("GET", "Host: localhost\r\nOrigin: http://evil.example\r\n", 403, "Origin"),
        ("GET", "Host: localhost\r\nOrigin: http://localhost:3000\r\n", 403, "Origin"),
        ("GET", "Host: localhost\r\nOrigin: null\r\n", 403, "Origin"),
        ("POST", "Host: localhost\r\n", 405, "method"),
        ("DELETE", "Host: localhost\r\n", 405, "method"),
        ("OPTIONS", "Host: localhost\r\n", 405, "method"),
        ("POST", "Host: evil.example\r\n", 403, "Host"),
    ];
    for path in ["/", "/metrics", "/live", "/ready", "/api/v1/status", "/api/v1/runs", "/assets/main.js"] {
        for (method, headers, status, field) in cases {
            let reply = port.ask(method, path, &format!("{headers}Accept-Encoding: gzip\r\n")).await;
            assert_eq!(reply.status, status, "{method} {path} {headers}");
            if status >= 400 {
                assert_eq!(reply.field(), field, "{method} {path} {headers}");
            }
            assert!(reply.headers["content-security-policy"].starts_with("default-src 'none'; script-src 'self';"));
            assert_eq!(reply.headers["referrer-policy"], "no-referrer");
            assert!(!reply.headers.contains_key("access-control-allow-origin"));
            assert!(status != 405 || reply.headers["allow"] == "GET, HEAD");
            assert_eq!(reply.body.is_empty(), method == "HEAD");
        }
    }
    // The request line can name a host, too.
    let absolute = port.ask("GET", "http://evil.example/live", "Host: localhost\r\n").await;
    assert_eq!((absolute.status, absolute.field().as_str()), (403, "Host"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_needed_where_one_is_set() {
    let port = port_with(Some("s3cret"), Ok(()), Bounds::default()).await;
    let ask = async |path: &str, authorization: &str| {
        let headers = format!("Host: localhost\r\n{authorization}");
        port.ask("GET", path, &headers).await
    };
    for path in ["/", "/metrics", "/api/v1/runs", "/assets/main.js", "/nothing"] {
        let of_another_user = "Basic b3RoZXI6czNjcmV0";
        for wrong in
            ["", "s3cret", "Bearer", "Bearer s3cre", "Bearer s3cret2", "Bearer S3cret", "Basic s3cret", of_another_user]
        {
            let header = if wrong.is_empty() { String::new() } else { format!("Authorization: {wrong}\r\n") };
            let reply = ask(path, &header).await;
            assert_eq!((reply.status, reply.field().as_str()), (401, "Authorization"), "{path} {wrong}");
            assert!(reply.headers["www-authenticate"].starts_with("Bearer"));
        }
    }
    for scheme in ["Bearer", "bearer", "BEARER"] {
        assert_eq!(ask("/metrics", &format!("Authorization: {scheme} s3cret\r\n")).await.status, 200, "{scheme}");
    }
    // conceptwatch:s3cret
    for scheme in ["Basic", "basic"] {
        let header = format!("Authorization: {scheme} Y29uY2VwdHdhdGNoOnMzY3JldA==\r\n");
        assert_eq!(ask("/", &header).await.status, 200, "{scheme}");
    }
    assert_eq!(ask("/live", "").await.status, 200);
    assert_eq!(ask("/ready", "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_logs_in_with_the_token_and_out_again() {
    let port = port_with(Some("s3cret&more"), Ok(()), Bounds::default()).await;
    let browser = "Host: localhost\r\nAccept: text/html,*/*\r\n";
    let sent = port.ask("GET", "/", browser).await;
    assert_eq!((sent.status, sent.headers["location"].as_str()), (303, "login"));
    let page = port.ask("GET", "/login", browser).await;
    assert!(page.status == 200 && page.text().contains("type=\"password\"") && !page.text().contains("<script"));
    assert!(page.headers["content-security-policy"].contains("form-action 'self'"));
    let post = async |path: &str, headers: &str, body: &str| {
        let length = body.len();
        let headers = format!("Host: localhost\r\nContent-Length: {length}\r\n{headers}");
        port.ask_with("POST", path, &headers, body).await
    };
    let own = "Origin: http://localhost\r\n";
    for foreign in ["", "Origin: http://evil.example\r\n", "Origin: http://localhost:9\r\n", "Origin: null\r\n"] {
        assert_eq!(post("/login", foreign, "token=s3cret%26more").await.status, 403, "{foreign}");
    }
    for wrong in ["", "token=", "token=s3cret", "s3cret%26more", "token=s3cret%26more2"] {
        let refused = post("/login", own, wrong).await;
        assert!(refused.status == 401 && refused.text().contains("not the sidecar's token"), "{wrong}");
        assert!(!refused.headers.contains_key("set-cookie"));
    }
    assert_eq!(port.app.metrics.tokens_refused.with_label_values(&["http"]).get(), 5);
    assert_eq!(post("/login", own, &"x".repeat(5000)).await.status, 400);
    let begun = post("/login", own, "token=s3cret%26more").await;
    assert_eq!((begun.status, begun.headers["location"].as_str()), (303, "./"));
    let cookie = &begun.headers["set-cookie"];
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains("s3cret"), "{cookie}");
    let cookie = format!("Cookie: other=1; {}\r\n", cookie.split(';').next().unwrap());
    let ask = async |headers: &str| port.ask("GET", "/api/v1/runs", &format!("Host: localhost\r\n{headers}")).await;
    let answer = ask(&cookie).await;
    assert_eq!((answer.status, answer.headers["conceptwatch-session"].as_str()), (200, "true"));
    assert_eq!(ask(&format!("{cookie}Sec-Fetch-Site: same-origin\r\n")).await.status, 200);
    // A page of another port of this host, and another cookie.
    assert_eq!(ask(&format!("{cookie}Sec-Fetch-Site: same-site\r\n")).await.status, 401);
    assert_eq!(ask(&cookie.replace('=', "=0")).await.status, 401);
    assert_eq!(post("/api/v1/runs", &format!("{own}{cookie}"), "").await.status, 405);
    // Another process with the token, as a balancer chooses it, and one with another token.
    for (token, status) in [("s3cret&more", 200), ("s3cret&other", 401)] {
        let other = port_with(Some(token), Ok(()), Bounds::default()).await;
        let answer = other.ask("GET", "/api/v1/runs", &format!("Host: localhost\r\n{cookie}")).await;
        assert_eq!(answer.status, status, "{token}");
    }
    let ended = post("/logout", &format!("{own}{cookie}"), "").await;
    assert!(ended.status == 303 && ended.headers["set-cookie"].contains("Max-Age=0"));
}
