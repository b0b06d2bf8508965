//! Precedence of sources, and error messages.

use super::*;
use server::AddressShare;
use std::{
    collections::BTreeSet,
    ffi::OsString,
    io::{self, ErrorKind},
    path::Path,
};

fn args(listen: Option<&str>) -> SettingsArgs {
    SettingsArgs { listen: listen.map(Into::into), ..SettingsArgs::default() }
}

fn env(variables: &[(&str, &str)]) -> Environment {
    Environment::new(variables.iter().map(|(name, value)| (name.to_string(), value.into())))
}

fn file(text: &str) -> Option<SourceFile> {
    Some(SourceFile { name: "consign.toml".into(), text: text.into(), open })
}

/// The files that exist in these tests.
fn open(path: &Path) -> io::Result<String> {
    match path.to_str() {
        Some("email.json") => Ok("{\"type\": \"object\"}".into()),
        Some("text.json") => Ok("{\"type\": ".into()),
        Some("list.json") => Ok("[]".into()),
        Some("wrong.json") => Ok("{\"properties\": {\"to\": {\"type\": \"strng\"}}}".into()),
        Some(_) | None => Err(ErrorKind::NotFound.into()),
    }
}

fn resolve(text: &str) -> Result<Settings, SettingErrors> {
    Settings::resolve(&args(None), &env(&[]), file(text).as_ref())
}

/// All errors of a file, one line each.
fn wrong(text: &str) -> Vec<String> {
    let SettingErrors(errors) = resolve(text).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(wrong(text), expected, "{text}");
}

fn origin_of(settings: &Settings, key: &'static SettingKey) -> String {
    let resolved =
        settings.resolved.iter().find(|resolved| std::ptr::eq(resolved.key, key)).unwrap();
    resolved.origin.label()
}

#[test]
fn flags_go_over_the_environment_over_the_file_over_the_defaults() {
    let written = file("\nlisten = \"127.0.0.3:3\"");
    let variables_set = [("CONSIGN_LISTEN", "127.0.0.2:2")];
    for (flag, variables, file, listen, origin) in [
        (Some("127.0.0.1:1"), &variables_set[..], &written, "127.0.0.1:1", "flag --listen"),
        (None, &variables_set[..], &written, "127.0.0.2:2", "environment CONSIGN_LISTEN"),
        (None, &[], &written, "127.0.0.3:3", "consign.toml:2"),
        (None, &[], &None, "127.0.0.1:8470", "default"),
    ] {
        let settings = Settings::resolve(&args(flag), &env(variables), file.as_ref()).unwrap();
        let resolved = (settings.listen.to_string(), origin_of(&settings, &key::LISTEN));
        assert_eq!(resolved, (listen.into(), origin.into()));
    }
}

#[test]
fn resolve_reads_each_key_once_in_list_order() {
    let settings = resolve("").unwrap();
    let resolved_keys: Vec<String> =
        settings.resolved.iter().map(|resolved| resolved.key.path()).collect();
    let all: Vec<String> = key::ALL.iter().map(|key| key.path()).collect();
    assert_eq!(resolved_keys, all);
}

#[test]
fn every_setting_can_be_set_by_a_variable() {
    for key in key::ALL.iter().copied() {
        let name = key.variable();
        let values = env(&[(&name, "\u{1}")]).read(&mut Vec::new());
        assert!(std::ptr::eq(values[0].key, key), "{name}");
    }
    let settings = Settings::resolve(
        &args(None),
        &env(&[
            ("CONSIGN_LIMITS_CONNECTIONS", "9000"),
            ("CONSIGN_BEHIND_PROXY", "true"),
            ("CONSIGN_PAYLOAD_MAX", "1MiB"),
            ("CONSIGN_SIGNED_URLS_LIFETIME", "2h"),
            ("CONSIGN_LOG_FORMAT", "json"),
        ]),
        None,
    )
    .unwrap();
    assert_eq!(settings.server.limits.connections_max, 9_000);
    assert!(settings.behind_proxy && settings.log.format == "json");
    assert_eq!(settings.payload_bytes_max, 1 << 20);
    assert_eq!(settings.server.signed_url_lifetime.as_secs(), 7_200);
}

#[test]
fn defaults_match_those_of_server_and_platform() {
    let settings = resolve("").unwrap();
    assert_eq!(format!("{:?}", settings.server), format!("{:?}", server::Settings::default()));
    assert_eq!(settings.payload_bytes_max, platform::Settings::default().payload_bytes_max);
}

#[test]
fn unknown_settings_are_reported_with_the_nearest_key() {
    check("\n\nlisen = 1", &["consign.toml:3:1: unknown key `lisen`; did you mean `listen`?"]);
    check(
        "[tls]\ncerts = \"a\"",
        &["consign.toml:2:1: unknown key `certs` in [tls]; did you mean `cert`?"],
    );
    check("[limts]", &["consign.toml:1:2: unknown key `limts`; did you mean `limits`?"]);
    check("nonsense = 1", &["consign.toml:1:1: unknown key `nonsense`"]);
    check(
        "body_bytes = 1",
        &["consign.toml:1:1: unknown key `body_bytes`; it belongs in [limits]"],
    );
    check(
        "[rate]\nstore = 1",
        &["consign.toml:2:1: unknown key `store` in [rate]; it belongs at the top of the file"],
    );
    check(
        "[types.email]\nmax_atempts = 1\nbackoff.bse = \"1s\"\nbackoff = 3",
        &["consign.toml:4:1: this is no TOML: duplicate key"],
    );
    check(
        "[types.email]\nmax_atempts = 1\nbackoff.bse = \"1s\"",
        &[
            "consign.toml:2:1: unknown key `max_atempts` of a type; did you mean `max_attempts`?",
            "consign.toml:3:9: unknown key `backoff.bse` of a type; did you mean `backoff.base`?",
        ],
    );
}

#[test]
fn unknown_variables_are_reported_and_foreign_ones_ignored() {
    let messages = |name: &str| {
        let SettingErrors(errors) =
            Settings::resolve(&args(None), &env(&[(name, "x")]), None).unwrap_err();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        messages("CONSIGN_LISEN"),
        ["CONSIGN_LISEN: this variable means nothing here; did you mean `CONSIGN_LISTEN`?"]
    );
    assert_eq!(
        messages("CONSIGN_TYPES_EMAIL"),
        ["CONSIGN_TYPES_EMAIL: types are set in the file: [types.\"name\"]"]
    );
    assert_eq!(
        messages("CONSIGN_DATABASE"),
        ["CONSIGN_DATABASE: this variable means nothing here"]
    );
    let others = [
        "CONSIGN_CONFIG",
        "CONSIGN_URL",
        "CONSIGN_KEY",
        "CONSIGN_PORT",
        "CONSIGN_PORT_8470_TCP_ADDR",
        "CONSIGN_SERVICE_HOST",
        "CONSIGN_SERVICE_PORT_HTTP",
        "PATH",
    ];
    let others = others.map(|name| (name, "x"));
    assert!(Settings::resolve(&args(None), &env(&others), None).is_ok());
}

#[test]
#[cfg(unix)]
fn a_variable_that_is_not_utf8_is_reported() {
    use std::os::unix::ffi::OsStringExt;
    let value = OsString::from_vec(vec![0xff]);
    let env = Environment::new([("CONSIGN_LISTEN".to_owned(), value)]);
    let errors = Settings::resolve(&args(None), &env, None).unwrap_err();
    assert_eq!(errors.to_string(), "CONSIGN_LISTEN: is not UTF-8");
}

#[test]
fn wrong_types_say_what_is_wrong_where_and_what_would_be_right() {
    check(
        "listen = 8470",
        &["consign.toml:1:10: `listen` must be a text such as \"127.0.0.1:8470\", but is a number"],
    );
    check(
        "behind_proxy = \"true\"",
        &["consign.toml:1:16: `behind_proxy` must be true or false without quotes, but is a text"],
    );
    check(
        "[limits]\nconnections = 0",
        &["consign.toml:2:15: `connections` must be a whole number from 1 to 1000000"],
    );
    check("limits = 3", &["consign.toml:1:10: `limits` must be a table: [limits]"]);
    check(
        "store = 1979-05-27",
        &["consign.toml:1:9: `store` must be a text such as \"sqlite:consign.db\", but is a date"],
    );
    check("[types]\nemail = 3", &["consign.toml:2:1: `email` must be a table: [types.\"email\"]"]);
    let SettingErrors(errors) =
        Settings::resolve(&args(Some("here")), &env(&[("CONSIGN_STORE", "x.db")]), None)
            .unwrap_err();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].to_string().starts_with("--listen: must be an address and a port"));
    assert!(errors[1].to_string().starts_with("CONSIGN_STORE: must begin with sqlite:"));
}

#[test]
fn all_wrong_settings_are_reported_even_under_a_flag() {
    let text =
        "listen = 1\nstroe = \"x\"\n[limits]\nbody_timeout = \"30\"\n[types.a]\nlease = \"2d\"";
    let resolved =
        Settings::resolve(&args(Some("127.0.0.1:1")), &env(&[]), file(text).as_ref()).unwrap_err();
    assert_eq!(resolved.0.len(), 4, "{resolved}");
    assert!(
        resolved.to_string().starts_with("4 settings are wrong\n  consign.toml:"),
        "{resolved}"
    );
}

#[test]
fn a_toml_syntax_error_is_reported_alone_with_its_place() {
    let messages = wrong("listen = \"127.0.0.1:1\nstroe = 1\n[tls\n");
    assert!(messages[0].starts_with("consign.toml:1:"), "{messages:?}");
    assert!(messages.iter().all(|message| message.contains("this is no TOML")), "{messages:?}");
}

#[test]
fn an_open_address_needs_tls_or_a_proxy() {
    for open in ["0.0.0.0:80", "[::]:80", "10.1.2.3:80"] {
        let messages = wrong(&format!("listen = \"{open}\""));
        assert!(
            messages.len() == 1 && messages[0].starts_with("consign.toml:1:10: "),
            "{messages:?}"
        );
        assert!(
            messages[0].contains("[tls]") && messages[0].contains("behind_proxy = true"),
            "{messages:?}"
        );
        assert!(resolve(&format!("listen = \"{open}\"\nbehind_proxy = true")).is_ok());
        let tls = "[tls]\ncert = \"a\"\nkey = \"b\"";
        assert!(resolve(&format!("listen = \"{open}\"\n{tls}")).is_ok());
    }
    check(
        "listen = \"0.0.0.0:80\"\n[tls]\ncert = \"a\"",
        &["consign.toml:3:8: [tls] has a certificate, but no key: set `key` as well"],
    );
}

#[test]
fn contradictory_limits_are_refused() {
    check(
        "payload_max = \"1MiB\"\nlimits.body_bytes = \"1MiB\"",
        &[
            "consign.toml:2:21: limits.body_bytes must be 16KiB more than payload_max at least, or no \
           request could hold such a payload",
        ],
    );
    check(
        "limits.page_bytes = \"1MiB\"",
        &["consign.toml:1:21: limits.page_bytes must not be less than limits.body_bytes"],
    );
    check(
        "limits.connections = 100",
        &[
            "the default of limits.waiting: limits.waiting must not be more than limits.connections: \
           every waiting request has one",
        ],
    );
    check(
        "[rate]\nburst = 3",
        &["consign.toml:2:9: [rate] has a burst, but no rate: set `per_second` as well"],
    );
}

#[test]
fn incomplete_or_unsafe_jwt_settings_are_refused() {
    check(
        "[jwt]\ntenant = \"*\"",
        &[
            "consign.toml:2:10: `*` is every tenant: it needs allow_all_tenants = true",
            "the default of jwt.audience: [jwt] needs `audience`",
            "the default of jwt.issuer: [jwt] needs `issuer`",
            "the default of jwt.jwks_file: [jwt] needs `jwks_file` or `jwks_url`: where the issuer's \
             public keys are",
        ],
    );
    let whole = "[jwt]\nissuer = \"i\"\naudience = \"a\"\njwks_file = \"k\"\n";
    let jwt = resolve(whole).unwrap().server.jwt.unwrap();
    assert_eq!((jwt.jwks, jwt.tenant), (JwksSource::File("k".into()), None));
    assert_eq!(jwt.algorithms, ["RS256"]);
    check(
        &format!("{whole}algorithms = [\"HS256\"]"),
        &[
            "consign.toml:5:14: `algorithms` must be one of RS256, RS384, RS512, PS256, PS384, PS512, \
           ES256, ES384, EdDSA, but is `HS256`; did you mean `ES256`?",
        ],
    );
    check(
        &format!("{whole}jwks_url = \"https://x/\""),
        &["consign.toml:5:12: [jwt] takes jwks_file or jwks_url, not both"],
    );
    assert!(resolve(&format!("{whole}tenant = \"*\"\nallow_all_tenants = true")).is_ok());
}

#[test]
fn types_are_checked_as_everywhere_and_wrong_ones_located() {
    let settings = resolve(
        "[types.\"invoice.pdf\"]\nmax_attempts = 5\nlease = \"1m\"\n\
         backoff = { base = \"1s\", factor = 1.5, jitter = \"none\" }",
    )
    .unwrap();
    let declared = &settings.types[0];
    assert_eq!(declared.job_type.as_str(), "invoice.pdf");
    assert_eq!((declared.policy.max_attempts, declared.policy.lease.as_secs()), (5, 60));
    assert_eq!(declared.policy.backoff.factor_hundredths, 150);
    check(
        "[types.email]\nmax_attempts = 1000\nkey_window = \"9999d\"\nbackoff.jitter = \"full\"",
        &[
            "consign.toml:2:1: `max_attempts` must be from 1 to 100, but is 1000",
            "consign.toml:3:1: `key_window` must be from 0s to 3650d, but is 863913600000ms",
        ],
    );
    check(
        "[types.email]\ntimeout = 30\nretention = \"soon\"\nbackoff = 2\nmax_queued = \"none\"",
        &[
            "consign.toml:2:1: `timeout` must be a text such as \"15m\", but is a number",
            "consign.toml:3:1: `retention` must be a whole number and a unit (ms, s, m, h, d), such as 30s",
            "consign.toml:4:1: `backoff` must be a table such as { base = \"5s\" }, but is a number",
            "consign.toml:5:1: `max_queued` must be a whole number without quotes, but is a text",
        ],
    );
    assert!(wrong("[types.\"E Mail\"]")[0].starts_with("consign.toml:1:8: `E Mail` must"));
}

#[test]
fn types_have_schemas_and_ready_made_handlers() {
    let settings = resolve(
        "[types.a]\nschema = \"email.json\"\nhandler = { http = \"https://hooks.example/a\" }\n\
         [types.b]\nhandler.exec = [\"convert\", \"-\"]",
    )
    .unwrap();
    let [a, b] = &settings.types[..] else { panic!("two types") };
    assert_eq!(a.policy.schema.as_ref().unwrap().as_str(), "{\"type\": \"object\"}");
    assert!(matches!(&a.policy.handler, Some(engine::ReadyMade::Http(_))));
    assert!(
        matches!(&b.policy.handler, Some(engine::ReadyMade::Exec(run)) if run.program() == "convert")
    );
    check(
        "[types.a]\nschema = \"none.json\"\nhandler = {}\n[types.b]\nschema = \"list.json\"\n\
         handler = { exec = \"convert\" }\n[types.c]\nschema = {}\nhandler.htp = \"x\"\n\
         [types.d]\nschema = \"text.json\"\nhandler = { http = \"https://a\", exec = [\"b\"] }\n\
         [types.e]\nhandler.exec = [\"convert\", 5]\n[types.f]\nhandler.exec = [\"\"]\n\
         [types.g]\nhandler.http = \"ftp://a\"",
        &[
            "consign.toml:2:1: `schema` names the file none.json, which cannot be read: entity not found",
            "consign.toml:3:1: `handler` must be a table such as { http = \"https://…\" } or { exec = [\"program\"] }, but is an empty table",
            "consign.toml:5:1: `schema` must be a JSON Schema: an object, true or false",
            "consign.toml:6:13: `handler.exec` must be a list such as [\"program\", \"argument\"], but is a text",
            "consign.toml:8:1: `schema` must be a text such as \"email.schema.json\", but is an empty table",
            "consign.toml:9:9: unknown key `handler.htp` of a type; did you mean `handler.http`?",
            "consign.toml:10:8: `handler` must have exactly one of http (an address) and exec (a list of words)",
            "consign.toml:14:9: `handler.exec` must be a text such as \"argument\", but is a number",
            "consign.toml:16:9: `handler.exec` at /0: must begin with a program, which has a name",
            "consign.toml:18:9: `handler.http` must begin with https:// or http://",
        ],
    );
    let message = &wrong("[types.a]\nschema = \"wrong.json\"")[0];
    let expected = "consign.toml:2:1: `schema` at /properties/to/type: must be one of ";
    assert!(message.starts_with(expected), "{message}");
    check(
        "[types.a]\nschema = \"text.json\"",
        &["consign.toml:2:1: `schema` is not JSON: expected a JSON value at byte 8"],
    );
}

#[test]
fn shown_settings_resolve_to_the_same_settings() {
    let text = "listen = \"[::1]:9\"\nstrict_types = true\n[rate]\nper_second = 7\n\
                [jwt]\nissuer = \"i\\\"q\"\naudience = \"a\"\njwks_url = \"https://x/keys\"\n\
                [types.email]\nbackoff.factor = 1.25\nmax_queued = 10\nschema = \"email.json\"\n\
                handler.exec = [\"a\", \"b \\\"c\\\"\"]";
    let first = resolve(text).unwrap();
    let shown = first.show();
    let second = resolve(&shown).unwrap();
    let (a, b) = (format!("{:?}", first.server), format!("{:?}", second.server));
    assert_eq!((a, first.listen), (b, second.listen), "{shown}");
    assert_eq!(first.types[0].policy, second.types[0].policy, "{shown}");
    assert!(shown.contains("[types.\"email\"]"), "{shown}");
    for line in shown.lines().filter(|line| !line.is_empty() && !line.starts_with('[')) {
        assert!(line.contains(" # "), "{line} does not say where it comes from");
    }
}

#[test]
fn doubtful_type_settings_are_warned_of() {
    let warnings = |text: &str| resolve(text).unwrap().warnings();
    let sound = "[types.a]\nretention = \"30d\"\nschema = \"email.json\"";
    assert_eq!(warnings(sound), [] as [String; 0]);
    let messages =
        warnings("[types.a]\ntimeout = \"30s\"\nbackoff = { base = \"1m\", max = \"1s\" }");
    let expected = [
        "timeout 30s is not longer than the lease of 30s: a lost worker is noticed only when the \
         timeout is over, and counts as HANDLER_TIMEOUT",
        "backoff.max 1s is shorter",
        "no schema is set",
        "no retention is set",
    ];
    assert_eq!(messages.len(), expected.len(), "{messages:?}");
    for (message, expected) in messages.iter().zip(expected) {
        assert!(
            message.starts_with("consign.toml:1:8: type a: ") && message.contains(expected),
            "{message}"
        );
    }
    assert!(warnings("strict_types = true")[0].contains("no [types]"));
}

#[test]
fn a_share_limit_is_below_its_total_or_warned_of() {
    let derived = resolve("[limits]\nconnections = 1000\nwaiting = 800").unwrap();
    let limits = &derived.server.limits;
    assert_eq!(limits.connections_per_address, AddressShare::Remote(250));
    assert_eq!((limits.waiting_per_principal_max, limits.waiting_per_job_max), (600, 50));
    assert_eq!(derived.warnings(), [] as [String; 0]);
    let totals = "[limits]\nconnections = 100\nwaiting = 80\n";
    for (name, below, all) in [
        ("connections_per_address", 99, 100),
        ("waiting_per_principal", 79, 80),
        ("waiting_per_job", 79, 81),
    ] {
        let warnings =
            |share: usize| resolve(&format!("{totals}{name} = {share}")).unwrap().warnings();
        assert_eq!(warnings(below), [] as [String; 0]);
        let messages = warnings(all);
        assert!(
            messages.len() == 1 && messages[0].starts_with(&format!("limits.{name} is {all}")),
            "{messages:?}"
        );
    }
}

#[test]
fn doubtful_handler_settings_are_warned_of() {
    let sound = "[types.a]\nretention = \"30d\"\nschema = \"email.json\"\n";
    let check = |handler: &str, rest: &str, reason: Option<&str>| {
        let messages = resolve(&format!("{sound}{handler}\n{rest}")).unwrap().warnings();
        assert_eq!(messages.len(), usize::from(reason.is_some()), "{handler}: {messages:?}");
        assert!(reason.is_none_or(|reason| messages[0].contains(reason)), "{messages:?}");
    };
    check("handler.http = \"https://hooks.example/\"", "", None);
    check("handler.http = \"https://10.0.0.1/\"", "", Some("not a public one"));
    check("handler.http = \"https://10.0.0.1/\"", "[outbound]\nallow = [\"10.0.0.0/8\"]", None);
    check("handler.http = \"http://hooks.example/\"", "", Some("is not https"));
    check("handler.exec = [\"true\"]", "", None);
    check("handler.exec = [\"true\"]", "[handlers]\nexec = \"file\"", None);
    check("handler.exec = [\"true\"]", "[handlers]\nexec = \"off\"", Some("exec` is \"off\""));
    check("handler.exec = [\"true\"]", "[handlers]\nexec = \"all\"", Some("can run any program"));
    let http = "handler.http = \"https://hooks.example/\"";
    check(http, "[handlers]\nhttp = \"file\"", None);
    check(http, "[handlers]\nhttp = \"off\"", Some("http` is \"off\""));
}

#[test]
fn the_file_is_the_named_one_or_the_one_that_lies_here() {
    let named = SettingsArgs { config: Some("a.toml".into()), ..args(None) };
    let variables = env(&[("CONSIGN_CONFIG", "b.toml")]);
    for (args, env, path, must) in [
        (&named, &variables, "a.toml", true),
        (&args(None), &variables, "b.toml", true),
        (&args(None), &env(&[]), "consign.toml", false),
    ] {
        assert_eq!(ConfigPath::of(args, env), ConfigPath { path: path.into(), named: must });
    }
}

#[test]
fn the_page_lists_every_key_with_its_default_and_its_variable() {
    let page = include_str!("../../../../docs/configuration.md");
    let rows: BTreeSet<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let missing = |row: &String| !rows.iter().any(|line| line.starts_with(row.as_str()));
    let expected = key::ALL.iter().map(|key| {
        let default = key.default.map_or("—".into(), |_| shown_default(key));
        format!("| `{}` | {default} | `{}` |", key.path(), key.variable())
    });
    let of_types = types::type_keys().map(|key| format!("| `{key}` | "));
    let absent: Vec<String> = expected.chain(of_types).filter(missing).collect();
    assert_eq!(absent, [] as [String; 0], "rows that docs/configuration.md does not have");
    assert_eq!(
        rows.len(),
        key::ALL.len() + types::type_keys().len(),
        "rows of keys that are not there"
    );
}

fn shown_default(key: &SettingKey) -> String {
    let value = key.kind.read(&RawSetting::Loose(key.default.unwrap().into())).unwrap();
    format!("`{}`", value.toml())
}
