//! The frame of a report, and text in it.

use leakage::field_error::printable;

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const TOKENS: &str = include_str!("../../../web/style.css");
const STYLE: &str = include_str!("report.css");

/// A page with this title, which is escaped already, and this body.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{TOKENS}\n{STYLE}</style>\n</head>\n<body>\n<main class=\"report\">\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Text that is not part of the page's markup, on one line.
pub fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            _ => html.push(c),
        }
    }
    html
}

/// A number with this many decimals, and the sign that is as wide as a plus.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|digit| matches!(digit, b'0' | b'.')) => digits.to_owned(),
        Some(digits) => format!("−{digits}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_no_sign() {
        assert_eq!([0.25, -0.25, -0.0001, 0.0].map(|value| number(value, 2)), ["0.25", "−0.25", "0.00", "0.00"]);
    }

    #[test]
    fn names_are_text() {
        assert_eq!(escaped("<b onclick='x'>\"&\n"), "&lt;b onclick=&#39;x&#39;&gt;&quot;&amp;\\n");
        assert_eq!(escaped("λ = 0,1"), "λ = 0,1");
    }
}
