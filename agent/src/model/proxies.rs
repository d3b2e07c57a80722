//! Which proxy a request goes through.

use super::ModelError;
use super::endpoint::Endpoint;
use ureq::Proxy;

/// The proxy that the environment names for this endpoint, by the variables that curl and most other programs read:
/// `HTTPS_PROXY` or `HTTP_PROXY` by the scheme of the endpoint, else `ALL_PROXY`, each also in lower case, unless
/// `NO_PROXY` has the host. This machine's own loopback is never reached through one.
pub(super) fn from_env(
    endpoint: &Endpoint,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, ModelError> {
    let variable = |name: &str| {
        let value = variable(&name.to_lowercase()).or_else(|| variable(name));
        value.filter(|value| !value.trim().is_empty())
    };
    let exceptions = variable("NO_PROXY").unwrap_or_default();
    if endpoint.is_loopback() || is_exempt(&endpoint.host, &exceptions) {
        return Ok(None);
    }
    let of_scheme = if endpoint.is_https { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let named = [of_scheme, "ALL_PROXY"].iter().find_map(|name| Some((*name, variable(name)?)));
    named.map(|(name, url)| parse(name, &url)).transpose()
}

/// A proxy from its URL. `name` is what the URL is called, since it may hold a password and is not quoted.
pub(super) fn parse(name: &str, url: &str) -> Result<Proxy, ModelError> {
    Proxy::new(url.trim()).map_err(|_| {
        let forms = "http://, https://, socks4://, socks4a://, socks5:// or socks5h:// and a host";
        ModelError::new(format!("the proxy of {name} cannot be used: it has to start with {forms}"))
    })
}

/// Whether the list has the host or a domain above it, or is `*`.
fn is_exempt(host: &str, list: &str) -> bool {
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        let domain = entry.trim_start_matches("*.").trim_start_matches('.').trim_matches(['[', ']']);
        let above = || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
        entry == "*" || (!domain.is_empty() && (host == domain || above()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(base_url: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let endpoint = Endpoint::new(base_url).expect("usable");
        let get = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        let proxy = from_env(&endpoint, get).map_err(|error| error.message)?;
        Ok(proxy.map(|proxy| proxy.uri().to_string()))
    }

    #[test]
    fn the_scheme_chooses_the_variable() {
        let variables = [("HTTP_PROXY", "http://plain:1"), ("https_proxy", "http://secure:2")];
        assert_eq!(proxy("http://a.example", &variables), Ok(Some("http://plain:1/".to_owned())));
        assert_eq!(proxy("https://a.example", &variables), Ok(Some("http://secure:2/".to_owned())));
        assert_eq!(proxy("https://a.example", &variables[..1]), Ok(None));
        let all = [("ALL_PROXY", "socks5h://any:3"), ("HTTP_PROXY", " ")];
        assert_eq!(proxy("http://a.example", &all), Ok(Some("socks5h://any:3/".to_owned())));
        assert_eq!(proxy("http://a.example", &[]), Ok(None));
    }

    #[test]
    fn some_hosts_are_reached_directly() {
        for (base_url, exceptions, is_direct) in [
            ("http://127.0.0.1:8080", "", true),
            ("http://localhost", "", true),
            ("http://[::1]", "", true),
            ("http://a.example", "", false),
            ("http://a.example", "b.example, a.example", true),
            ("http://a.example", "example", true),
            ("http://a.example", ".example", true),
            ("http://a.example", "*.example", true),
            ("http://a.example", "ample", false),
            ("http://A.Example", "a.EXAMPLE", true),
            ("http://10.0.0.1", "10.0.0.1", true),
            ("http://10.0.0.11", "10.0.0.1", false),
            ("http://[fe80::1]", "fe80::1", true),
            ("http://a.example", "*", true),
            ("http://a.example", ",. ,", false),
        ] {
            let variables = [("HTTP_PROXY", "http://p:1"), ("NO_PROXY", exceptions)];
            let proxy = proxy(base_url, &variables).expect("usable");
            assert_eq!(proxy.is_none(), is_direct, "{base_url} with {exceptions:?}");
        }
    }

    #[test]
    fn an_unusable_proxy_is_named_without_its_password() {
        for url in ["ftp://user:secret@p", "http://user:secret@", "se cret"] {
            let error = proxy("http://a.example", &[("HTTP_PROXY", url)]).expect_err(url);
            assert!(error.starts_with("the proxy of HTTP_PROXY") && !error.contains("secret"), "{error}");
        }
    }
}
