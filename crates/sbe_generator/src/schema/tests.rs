//! Schemas that are refused, and why; and what other generators get wrong.

use crate::{RUNTIME, generate};

const TYPES: &str = "<composite name='messageHeader'><type name='blockLength' primitiveType='uint16'/>
<type name='templateId' primitiveType='uint16'/><type name='schemaId' primitiveType='uint16'/>
<type name='version' primitiveType='uint16'/></composite>
<composite name='groupSizeEncoding'><type name='blockLength' primitiveType='uint16'/>
<type name='numInGroup' primitiveType='uint16'/></composite>
<composite name='data'><type name='length' primitiveType='uint8'/><type name='varData' primitiveType='uint8' length='0'/></composite>";

fn schema(types: &str, body: &str) -> String {
    format!(
        "<messageSchema id='1' version='2'><types>{TYPES}{types}</types>\n<message name='M' id='1'>\n{body}\n</message></messageSchema>"
    )
}

/// The reason for which a schema is refused.
fn refused(xml: &str) -> String {
    match generate("s.xml", xml.as_bytes(), RUNTIME) {
        Ok(_) => panic!("taken: {xml}"),
        Err(problem) => {
            assert!(
                problem.brief().starts_with("cannot use the SBE schema s.xml: line ")
                    && !problem.next_step().is_empty()
            );
            problem.brief()
        }
    }
}

fn refused_message(types: &str, body: &str) -> String {
    refused(&schema(types, body))
}

fn view(types: &str, body: &str) -> String {
    let files =
        generate("s.xml", schema(types, body).as_bytes(), RUNTIME).unwrap_or_else(|problem| panic!("{problem}"));
    files.into_iter().find(|file| file.path == "m.rs").expect("the view").text
}

#[test]
fn unknown_types_and_recursion_are_refused() {
    assert!(
        refused_message("", "<field name='F' id='1' type='X'/>").contains("<field name=\"F\">: there is no type \"X\"")
    );
    let circle = "<composite name='A'><ref name='b' type='B'/></composite><composite name='B'><ref name='a' type='A'/></composite>";
    assert!(refused_message(circle, "<field name='F' id='1' type='A'/>").contains("contains itself"));
    let mut deep = String::from("<composite name='C0'><type name='x' primitiveType='int8'/></composite>");
    (1..20).for_each(|at| {
        deep.push_str(&format!("<composite name='C{at}'><ref name='c' type='C{}'/></composite>", at - 1));
    });
    assert!(refused_message(&deep, "<field name='F' id='1' type='C19'/>").contains("more than 8 deep"));
    assert!(
        refused_message("<enum name='E' encodingType='E'/>", "<field name='F' id='1' type='E'/>")
            .contains("contains itself")
    );
}

#[test]
fn layouts_that_cannot_be_are_refused() {
    let fields =
        |second: &str| format!("<field name='A' id='1' type='int32'/><field name='B' id='2' type='int32' {second}/>");
    assert!(
        refused_message("", &fields("offset='2'")).contains("offset 2 is inside the field before, which ends at 4")
    );
    assert!(refused_message("", &fields("offset='70000'")).contains("at most 65535"));
    assert!(refused_message("", &fields("offset='18446744073709551615'")).contains("at most 65535"));
    assert!(refused_message("", &fields("offset='x'")).contains("offset is \"x\""));
    assert!(refused_message("", &fields("sinceVersion='3'")).contains("later than the schema's version 2"));
    let short = schema("", &fields("")).replace("<message name='M' id='1'", "<message name='M' id='1' blockLength='7'");
    assert!(refused(&short).contains("blockLength 7 is less than the 8 bytes"));
    let long = short.replace("'7'", "'65536'");
    assert!(refused(&long).contains("more than 65535"));
    let huge = "<type name='T' primitiveType='int64' length='65535'/>";
    assert!(refused_message(huge, "<field name='F' id='1' type='T'/>").contains("at most 65535"));
}

#[test]
fn parts_have_their_order() {
    let data = "<data name='D' id='1' type='data'/>";
    let field = "<field name='F' id='2' type='int8'/>";
    let group = format!("<group name='G' id='3'>{field}</group>");
    for (body, line) in
        [(format!("{data}\n{field}"), 9), (format!("{group}\n{field}"), 9), (format!("{data}\n{group}"), 9)]
    {
        let reason = refused_message("", &body);
        assert!(reason.contains(&format!("line {line}")) && reason.contains("fields come first"), "{reason}");
    }
    assert!(refused_message("", &format!("{field}{field}")).contains("another one of this name"));
    assert!(refused_message("", "<group name='G' id='1'/>").contains("its entries have no bytes"));
    assert!(refused_message("", "<thing name='T'/>").contains("<thing> is no part of a message"));
    let deep = format!("{}{}", "<group name='G' id='1'>".repeat(7), "</group>".repeat(7));
    assert!(refused_message("", &deep).contains("more than 6 deep"));
}

#[test]
fn composites_of_sbe_itself_need_their_parts() {
    let group = "<group name='G' id='1' dimensionType='D'><field name='F' id='2' type='int8'/></group>";
    let part = |name: &str, of: &str| format!("<type name='{name}' primitiveType='{of}'/>");
    let dimension = |parts: &str| format!("<composite name='D'>{parts}</composite>");
    assert!(refused_message(&dimension(&part("blockLength", "uint16")), group).contains("it has no numInGroup"));
    let signed = dimension(&(part("blockLength", "uint16") + &part("numInGroup", "int8")));
    assert!(refused_message(&signed, group).contains("numInGroup is no unsigned integer of at most 4 bytes"));
    let wide = dimension(&(part("blockLength", "uint64") + &part("numInGroup", "uint8")));
    assert!(refused_message(&wide, group).contains("blockLength is no unsigned integer"));
    assert!(refused_message("<type name='D' primitiveType='int8'/>", group).contains("is no composite"));
    assert!(refused("<messageSchema id='1'/>").contains("there is no type \"messageHeader\""));
    assert!(refused("<schema/>").contains("not <messageSchema>"));
}

#[test]
fn values_that_cannot_be_are_refused() {
    let of = |types: &str| refused_message(types, "<field name='F' id='1' type='T'/>");
    assert!(of("<type name='T' primitiveType='uint8' nullValue='256'/>").contains("\"256\" is no value of its type"));
    assert!(of("<type name='T' primitiveType='uint8' length='0'/>").contains("length 0"));
    assert!(of("<enum name='T' encodingType='float'/>").contains("is a float"));
    let value = |name: &str, value: &str| format!("<validValue name='{name}'>{value}</validValue>");
    let twice = format!("<enum name='T' encodingType='uint8'>{}{}</enum>", value("A", "1"), value("B", "1"));
    assert!(of(&twice).contains("another one has the same value"));
    assert!(of("<set name='T' encodingType='uint8'><choice name='A'>8</choice></set>").contains("no bit"));
    assert!(of("<set name='T' encodingType='int8'/>").contains("no unsigned integer"));
    assert!(
        of("<type name='T' primitiveType='char' presence='constant' length='2'>\u{e9}</type>")
            .contains("printable ASCII")
    );
    let constant = "<field name='F' id='1' type='int8' presence='constant'/>";
    assert!(refused_message("", constant).contains("it is constant and has no value"));
    let reference = "<field name='F' id='1' type='int8' presence='constant' valueRef='E.A'/>";
    assert!(
        refused_message("<enum name='E' encodingType='uint8'/>", reference).contains("valueRef \"E.A\" is no value")
    );
}

#[test]
fn names_that_are_no_names_are_refused() {
    for name in ["", "1a", "a b", "a-b", "_", "a\u{e9}", "a;fn", &"n".repeat(129)] {
        assert!(
            refused_message("", &format!("<field name='{name}' id='1' type='int8'/>")).contains("its name is not"),
            "{name}"
        );
    }
    assert!(
        refused_message("<type name='T' primitiveType='int8'/><type name='T' primitiveType='int8'/>", "")
            .contains("another type")
    );
}

#[test]
fn descriptions_cannot_end_a_comment() {
    let text = view("", "<field name='F' id='1' type='int8' description='a&#10;fn evil() {} */ &#13; [x](y)'/>");
    assert!(text.contains("    /// a fn evil() {} \\*/ \\[x\\](y).\n"), "{text}");
}

#[test]
fn names_of_one_scope_never_meet() {
    let text = view(
        "",
        "<field name='AB' id='1' type='int8'/><field name='ab' id='2' type='int8'/><field name='fn' id='3' type='int8'/>",
    );
    for name in ["fn ab(", "fn ab2(", "fn fn_("] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let text = view("", "<field name='decode' id='1' type='int8'/><field name='as_bytes' id='2' type='int8'/>");
    assert!(text.contains("fn decode2(") && text.contains("fn as_bytes2("), "{text}");
}

/// Faults of other generators: var-data in groups refused, composites with sinceVersion that do not compile (tests/everything of crate
/// `market` compiles and runs both), the compiled block length instead of the received one.
#[test]
fn views_step_by_the_received_block_length() {
    let group = "<field name='A' id='1' type='int8'/><group name='G' id='2'><field name='B' id='3' type='int8'/><data name='D' id='4' type='data'/></group>";
    let text = view("", group);
    assert!(text.contains("tail.block(\"M\", header.block_length)?"), "{text}");
    assert!(text.contains("tail.block(Self::PART, block_length)?"), "{text}");
}

#[test]
fn messages_may_stand_in_an_element_of_their_own_and_types_in_several() {
    let xml = format!(
        "<x:messageSchema xmlns:x='u' id='1'><types>{TYPES}</types><types><type name='T' primitiveType='int8'/></types>
        <x:messages><x:message name='M' id='1'><field name='F' id='1' type='T'/></x:message></x:messages></x:messageSchema>"
    );
    assert!(generate("s.xml", xml.as_bytes(), RUNTIME).is_ok());
    assert!(refused(&xml.replace("x:message name='M' id='1'", "x:message name='M'")).contains("it has no id"));
    let twice = schema("", "</message><message name='N' id='1'>");
    assert!(refused(&twice).contains("another message of this name or id"));
}

proptest::proptest! {
    /// Hostile schemas: a good one with parts replaced.
    #[test]
    fn any_schema_is_taken_or_refused(cuts in proptest::collection::vec((0usize..900, 0usize..20, "[a-zA-Z0-9<>/'= ]{0,12}"), 1..6)) {
        let types = "<enum name='E' encodingType='uint8'><validValue name='A'>1</validValue></enum>";
        let mut xml = schema(types, "<field name='A' id='1' type='E'/><group name='G' id='2'><field name='B' id='3' type='int8'/></group>");
        for (at, length, text) in cuts {
            let at = at.min(xml.len());
            let end = (at + length).min(xml.len());
            xml.replace_range(at..end, &text);
        }
        let _ = generate("s.xml", xml.as_bytes(), RUNTIME);
    }
}
