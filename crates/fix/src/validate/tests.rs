use super::*;
use crate::Index;
use crate::decode::tests::whole;
use crate::dictionary::Version;
use std::sync::OnceLock;

const HEADER: &str = "34=2|49=TW|52=20261121-23:50:00|56=ISLD|";
const ORDER: &str = "11=ID|21=3|40=1|54=1|55=INTC|60=20261121-23:50:00|";

/// Reading a table takes its time without optimization.
fn dictionary(version: Version) -> &'static Dictionary {
    static KNOWN: [OnceLock<Dictionary>; Version::ALL.len()] = [const { OnceLock::new() }; Version::ALL.len()];
    KNOWN[version as usize].get_or_init(|| Dictionary::fixed(version))
}

fn check_with(version: Version, body: &str, options: &ValidationOptions) -> Option<(u8, Option<i64>)> {
    let bytes = whole(version.begin_string(), body);
    let mut index = Index::default();
    let message = index.decode(&bytes).expect("a message that is not garbled");
    let answer = validate(&message, dictionary(version), options);
    answer.err().map(|rejection| (rejection.reason.code(), rejection.tag))
}

fn check(body: &str) -> Option<(u8, Option<i64>)> {
    check_with(Version::Fix44, body, &ValidationOptions::default())
}

/// A message of this type with the header and these fields.
fn message(msg_type: &str, fields: &str) -> Option<(u8, Option<i64>)> {
    check(&format!("35={msg_type}|{HEADER}{fields}"))
}

#[test]
fn good_messages_pass_in_every_version() {
    for version in Version::ALL {
        let options = ValidationOptions::default();
        assert_eq!(check_with(version, &format!("35=0|{HEADER}112=x|"), &options), None, "{version:?}");
        // TransactTime is part of an order since FIX 4.2.
        let order =
            if version < Version::Fix42 { ORDER.replace("60=20261121-23:50:00|", "") } else { ORDER.to_owned() };
        let order = format!("35=D|{HEADER}{order}38=100|");
        let expected = (version == Version::Fixt11).then_some((11, None));
        assert_eq!(check_with(version, &order, &options), expected, "{version:?}");
    }
}

/// The numbers are those of the FIX session test cases.
#[test]
fn fields_are_held_against_the_dictionary() {
    assert_eq!(message("0", "999=HI|"), Some((0, Some(999))), "14a");
    assert_eq!(message("0", "0=HI|"), Some((0, Some(0))), "14a");
    assert_eq!(message("0", "-1=HI|"), Some((0, Some(-1))), "14a");
    assert_eq!(message("0", "5000=HI|"), Some((0, Some(5000))), "14a");
    assert_eq!(check("35=0|34=2|49=TW|52=20261121-23:50:00|"), Some((1, Some(56))), "14b");
    assert_eq!(message("D", ORDER.strip_prefix("11=ID|").unwrap()), Some((1, Some(11))), "14b");
    assert_eq!(message("0", "55=MSFT|"), Some((2, Some(55))), "14c");
    assert_eq!(check("35=0|34=2|49=TW|52=20261121-23:50:00|56=|"), Some((4, Some(56))), "14d");
    assert_eq!(message("D", &ORDER.replace("21=3", "21=4")), Some((5, Some(21))), "14e");
    assert_eq!(message("D", &format!("{ORDER}167=BOO|")), Some((5, Some(167))), "14e");
    assert_eq!(message("D", &format!("{ORDER}38=+200.00|")), Some((6, Some(38))), "14f");
    assert_eq!(message("D", &format!("{ORDER}38=002000.00|")), None, "14e");
    assert_eq!(check(&format!("35=D|{ORDER}{HEADER}")), Some((14, Some(34))), "14g");
    assert_eq!(message("D", &format!("{ORDER}40=1|")), Some((13, Some(40))), "14h");
    assert_eq!(message("ZZ", ""), Some((11, None)), "2q");
}

#[test]
fn an_order_has_to_say_what_for_where_the_version_says_so() {
    let nothing = ORDER.replace("55=INTC|", "");
    for (version, expected) in [
        (Version::Fix42, Some((1, Some(55)))),
        (Version::Fix43, Some((1, Some(55)))),
        (Version::Fix44, Some((1, Some(55)))),
        (Version::Fix50, None),
    ] {
        let order = format!("35=D|{HEADER}{nothing}38=100|");
        assert_eq!(check_with(version, &order, &ValidationOptions::default()), expected, "{version:?}");
    }
    // In a message that need not name an instrument it need not.
    assert_eq!(message("d", "320=1|322=2|323=1|"), None);
}

#[test]
fn a_security_definition_of_50_has_its_trading_session() {
    let definition = format!("35=d|{HEADER}320=1|322=2|323=1|336=1|625=2|");
    for (version, expected) in [
        (Version::Fix44, None),
        (Version::Fix50, None),
        (Version::Fix50Sp1, Some((2, Some(336)))),
        (Version::Fix50Sp2, Some((2, Some(336)))),
    ] {
        assert_eq!(check_with(version, &definition, &ValidationOptions::default()), expected, "{version:?}");
    }
}

#[test]
fn switches_do_what_quickfix_says() {
    let with = |fields: &str, set: &dyn Fn(&mut ValidationOptions)| {
        let mut options = ValidationOptions::default();
        set(&mut options);
        check_with(Version::Fix44, &format!("35=D|{HEADER}{ORDER}{fields}"), &options)
    };
    assert_eq!(with("5000=x|", &|options| options.validate_user_defined_fields = false), None);
    assert_eq!(with("999=x|", &|options| options.validate_user_defined_fields = false), Some((0, Some(999))));
    assert_eq!(with("999=x|", &|options| options.allow_unknown_msg_fields = true), None);
    assert_eq!(with("5000=x|", &|options| options.allow_unknown_msg_fields = true), Some((0, Some(5000))));
    assert_eq!(with("58=|", &|options| options.validate_fields_have_values = false), None);
    assert_eq!(with("59=X|", &|options| options.allow_unknown_enum_values = true), None);
    assert_eq!(with("50=x|", &|options| options.validate_fields_out_of_order = false), None);
    assert_eq!(with("999=x|58=y|58=z|", &|options| options.use_data_dictionary = false), None);
    assert_eq!(with("-3=x|", &|options| options.use_data_dictionary = false), Some((0, Some(-3))));
    let options = ValidationOptions { check_required_tags: false, ..ValidationOptions::default() };
    assert_eq!(check_with(Version::Fix44, &format!("35=D|{HEADER}"), &options), None);
}

#[test]
fn groups_are_counted() {
    let parties = |fields: &str| message("D", &format!("{ORDER}{fields}"));
    assert_eq!(parties("453=2|448=A|447=D|452=1|448=B|447=D|452=3|"), None);
    assert_eq!(parties("453=0|"), None, "21");
    assert_eq!(parties("453=1|448=A|447=D|452=1|448=B|447=D|452=3|"), Some((16, Some(453))), "14i");
    assert_eq!(parties("453=3|448=A|447=D|452=1|448=B|447=D|452=3|"), Some((16, Some(453))), "14i");
    assert_eq!(parties("453=1|"), Some((16, Some(453))));
    assert_eq!(parties("453=1|447=D|448=A|452=1|"), Some((15, Some(447))));
    assert_eq!(parties("453=1|448=A|452=1|447=D|"), Some((15, Some(447))));
    assert_eq!(parties("453=1|448=A|447=!|452=1|"), Some((5, Some(447))));
    assert_eq!(parties("453=99999999999999999999|448=A|"), Some((6, Some(453))));
    assert_eq!(parties("448=A|"), Some((2, Some(448))), "a group's field without its group");
}

#[test]
fn groups_hold_groups() {
    let parties = |fields: &str| message("D", &format!("{ORDER}{fields}"));
    assert_eq!(parties("453=2|448=A|452=1|802=2|523=a|803=1|523=b|803=2|448=B|452=3|"), None);
    assert_eq!(parties("453=2|448=A|452=1|802=1|523=a|803=1|523=b|803=2|448=B|452=3|"), Some((16, Some(802))));
    assert_eq!(parties("453=1|448=A|452=1|802=1|523=a|803=x|"), Some((6, Some(803))));
}

#[test]
fn order_within_an_entry_is_a_switch() {
    let options = ValidationOptions { validate_unordered_group_fields: false, ..ValidationOptions::default() };
    let body = |fields: &str| format!("35=D|{HEADER}{ORDER}{fields}");
    assert_eq!(check_with(Version::Fix44, &body("453=2|448=A|452=1|447=D|448=B|452=3|"), &options), None);
    assert_eq!(
        check_with(Version::Fix44, &body("453=2|448=A|452=1|448=B|452=3|452=4|"), &options),
        Some((16, Some(453)))
    );
}

#[test]
fn groups_of_the_header_have_their_place() {
    let hops = "627=2|628=A|629=20261121-23:50:00|628=B|";
    assert_eq!(check(&format!("35=0|{HEADER}{hops}112=x|")), None);
    assert_eq!(check(&format!("35=0|{HEADER}112=x|{hops}")), Some((14, Some(627))));
}

#[test]
fn a_validator_holds_many_messages() {
    let dictionary = dictionary(Version::Fix44);
    let (mut validator, mut index) = (Validator::new(), Index::default());
    let bytes = whole("FIX.4.4", &format!("35=D|{HEADER}{ORDER}453=1|448=A|447=D|452=1|"));
    for _ in 0..3 {
        let message = index.decode(&bytes).unwrap();
        assert_eq!(validator.validate(&message, dictionary, &ValidationOptions::default()), Ok(()));
    }
}
