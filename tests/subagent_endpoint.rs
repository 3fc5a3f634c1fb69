//! [D1] What a sub-session's endpoint may do to it: whatever goes wrong there ends the task as failed, with a reason of fixed
//! words; nothing is asked again or elsewhere, and the key goes to nobody else.

use std::{
    io::Read,
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::json;
use tests::{Answer, Model, Rig, delegation::KEY, tls::Face};

/// What an endpoint may put into a body, and nobody may repeat.
const BODY: &str = "BODY-CANARY-1f";

#[test]
fn whatever_goes_wrong_at_the_model_ends_the_task_as_failed_and_nothing_else_is_asked() {
    let mut rig = Rig::new(&[]);
    let echo = format!("{BODY} {KEY} {}", "x".repeat(1_000_000));
    for (answer, words) in [
        (Answer::Says(401, echo.clone()), "401"),
        (Answer::Says(429, echo.clone()), "429"),
        (Answer::Says(500, echo.clone()), "500"),
        (Answer::Says(529, echo.clone()), "529"),
        (Answer::Says(204, String::new()), "204"),
        (Answer::Says(200, echo), "Messages API"),
        (Answer::Says(200, json!({"type": "message", "content": []}).to_string()), "Messages API"),
        (Answer::Page, "Messages API"),
        (Answer::Moved(format!("{}/other", rig.model.url())), "307"),
        (Answer::Refusal, "refused"),
        (Answer::Breaks, "error"),
        (Answer::Garbage, "broke off"),
        (Answer::Half, "broke off"),
        (Answer::Cut, "broke off"),
        (Answer::Empty, "answered nothing"),
        (Answer::Endless, "larger than"),
        (Answer::Calls(vec![("FindFiles".into(), json!({})); 3000]), "tool calls at once"),
    ] {
        let before = rig.model.asked().len();
        let told_of = format!("{answer:?}").chars().take(80).collect::<String>();
        rig.model.answer(answer);
        let told = rig.delegate("sonnet");
        let end = rig.end_of(&told["id"]);
        assert_eq!(end["state"], "failed", "{told_of}: {end}");
        let reason = end["reason"].as_str().unwrap();
        assert!(reason.contains(words) && reason.len() < 400, "{told_of}: {end}");
        assert!(!end.to_string().contains(BODY) && !end.to_string().contains(KEY), "{told_of}: {end}");
        assert_eq!(rig.model.asked().len(), before + 1, "{told_of}: it was asked again");
        let listed = rig.session.view["deepseek_subsessions"].as_array().unwrap().last().unwrap();
        assert_eq!((&listed["reason"], &listed["state"]), (&end["reason"], &json!("failed")));
        assert_eq!((&listed["turns"], &end["turns"]), (&json!(1), &json!(1)));
    }
    assert!(rig.model.asked().iter().all(|asked| asked.body["model"] == "the-flash"), "it fell back");
    rig.session.finish("done");
    rig.session.stop();
    let log = rig.gateway.log();
    assert!(!log.contains(BODY) && !log.contains(KEY), "{log}");
}

#[test]
fn a_tool_that_it_does_not_have_is_refused_and_its_turns_are_counted() {
    let mut rig = Rig::with(&[], &[("CLAUDE_TOOLS_DEEPSEEK_TURNS", "3")]);
    for name in ["Bash", "deepseek_subagent_start", "no/such\u{1}tool"] {
        rig.model.answer(Answer::Calls(vec![(name.into(), json!({"command": "touch a.txt"})); 2]));
    }
    let told = rig.delegate("opus");
    let end = rig.end_of(&told["id"]);
    assert_eq!(end["state"], "failed", "{end}");
    assert!(end["reason"].as_str().unwrap().contains("limit of 3"), "{end}");
    assert_eq!((&end["turns"], rig.model.asked().len()), (&json!(3), 3), "{end}");
    assert!(rig.model.asked()[2].body["messages"].to_string().contains("\"is_error\":true"));
    assert_eq!(end["files_changed"], json!([]));
    assert_eq!(std::fs::read_to_string(rig.file("a.txt")).unwrap(), "one\n");
    rig.session.stop();
}

#[test]
fn the_key_goes_to_an_endpoint_that_its_authority_vouches_for_and_to_no_other() {
    let mut rig = Rig::of(Model::secure(&[]), &[]);
    for (face, words) in [
        (Face::Stranger, "CLAUDE_TOOLS_DEEPSEEK_CA_FILE"),
        (Face::Impostor, "CLAUDE_TOOLS_DEEPSEEK_CA_FILE"),
        (Face::Expired, "expired"),
        (Face::OtherHost, "another host"),
        (Face::Plain, "does not speak TLS"),
        (Face::Closes, "can't be reached"),
        (Face::Silent, "took longer than 15 s"),
    ] {
        rig.model.put_on(face);
        let told = rig.delegate("sonnet");
        let end = rig.end_of(&told["id"]);
        assert_eq!(end["state"], "failed", "{face:?}: {end}");
        assert!(end["reason"].as_str().unwrap().contains(words), "{face:?}: {end}");
        assert!(rig.model.asked().is_empty(), "{face:?}: a request was sent");
    }
    rig.model.answer(Answer::Text("Good.".into()));
    let told = rig.delegate("sonnet");
    let end = rig.end_of(&told["id"]);
    assert_eq!((&end["state"], &end["text"]), (&json!("finished"), &json!("Good.")), "{end}");
    assert!(rig.model.asked()[0].head.contains(KEY), "{}", rig.model.asked()[0].head);
    assert!(!rig.model.heard().contains(KEY), "the key went over the wire in the clear");
    rig.session.stop();
}

#[test]
fn the_authorities_are_the_owners_file_or_the_systems_and_a_bad_file_is_named() {
    // A file that the other programs of the machine are told of counts as well; one of the owner's own comes first.
    for (own, usual, words) in [
        ("", "the model's", ""),
        ("the model's", "/nowhere", ""),
        ("/nowhere", "the model's", "CLAUDE_TOOLS_DEEPSEEK_CA_FILE"),
        ("no certificates", "", "CLAUDE_TOOLS_DEEPSEEK_CA_FILE"),
    ] {
        let model = Model::secure(&[Answer::Text("Good.".into())]);
        let folder = tempfile::tempdir().unwrap();
        let named = |what: &str| {
            let path = folder.path().join(what.len().to_string());
            match what {
                "the model's" => std::fs::write(&path, model.authority()).unwrap(),
                "no certificates" => std::fs::write(&path, "hello\n").unwrap(),
                other => return other.to_owned(),
            }
            path.to_str().unwrap().to_owned()
        };
        let settings = [("CLAUDE_TOOLS_DEEPSEEK_CA_FILE", named(own)), ("SSL_CERT_FILE", named(usual))];
        let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
        let mut rig = Rig::of(model.clone(), &settings);
        let told = rig.delegate("sonnet");
        let end = rig.end_of(&told["id"]);
        let expected = if words.is_empty() { "finished" } else { "failed" };
        assert_eq!(end["state"], expected, "{own} {usual}: {end}");
        assert!(end["reason"].as_str().unwrap_or_default().contains(words), "{own} {usual}: {end}");
        assert!(!end.to_string().contains("/nowhere"), "{end}");
        rig.session.stop();
    }
}

#[test]
fn the_address_is_taken_as_it_was_given_and_no_proxy_is_asked() {
    // A proxy that would tell of every request.
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    thread::spawn(move || {
        for mut stream in proxy.incoming().flatten() {
            let mut bytes = [0; 512];
            let got = stream.read(&mut bytes).unwrap_or_default();
            hearing.lock().unwrap().push(String::from_utf8_lossy(&bytes[..got]).into_owned());
        }
    });
    let model = Model::with(&[Answer::Text("Good.".into())]);
    let url = format!("{}/anthropic/", model.url());
    let names = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    let mut settings: Vec<_> = names.iter().map(|name| (*name, address.as_str())).collect();
    settings.push(("CLAUDE_TOOLS_DEEPSEEK_URL", &url));
    let mut rig = Rig::of(model, &settings);
    let told = rig.delegate("fable");
    assert_eq!(rig.end_of(&told["id"])["state"], "finished");
    let asked = rig.model.asked().remove(0);
    assert_eq!(asked.path, "/anthropic/v1/messages");
    let with_key: Vec<_> = asked.head.lines().filter(|line| line.contains(KEY)).collect();
    assert_eq!(with_key, [format!("x-api-key: {KEY}")], "the key stands in one header");
    assert_eq!((&asked.body["model"], &asked.body["stream"]), (&json!("the-pro"), &json!(true)));
    assert_eq!(*heard.lock().unwrap(), Vec::<String>::new(), "a proxy was asked");
    rig.session.stop();
}
