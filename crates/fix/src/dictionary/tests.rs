use super::*;

#[test]
fn every_version_is_there() {
    for version in Version::ALL {
        let dictionary = Dictionary::fixed(version);
        assert_eq!(dictionary.begin_string(), version.begin_string());
        let logon = dictionary.message(b"A").expect("a logon");
        assert!(logon.is_admin && logon.body.member(108).is_some_and(|member| member.required), "{version:?}");
        for tag in [8, 9, 35, 34, 49, 52, 56] {
            assert!(dictionary.header().member(tag).is_some_and(|member| member.required), "{version:?} {tag}");
        }
        assert!(dictionary.trailer().member(10).is_some_and(|member| member.required));
        assert_eq!(dictionary.message(b"D").is_some(), version != Version::Fixt11);
        assert!(Version::by_name(version.begin_string()).is_some());
    }
}

#[test]
fn versions_grow() {
    let count = |version| Dictionary::fixed(version).fields().len();
    let counts: Vec<usize> = Version::ALL[..9].iter().map(|version| count(*version)).collect();
    assert!(counts.is_sorted(), "{counts:?}");
    let values = |version, tag| Dictionary::fixed(version).field(tag).map(|field| field.allows(b"Z"));
    assert_eq!(values(Version::Fix40, 54), Some(false));
    assert!(Dictionary::fixed(Version::Fix40).field(207).is_none());
    assert!(Dictionary::fixed(Version::Fix41).field(207).is_some());
}

#[test]
fn groups_hold_groups() {
    let dictionary = Dictionary::fixed(Version::Fix44);
    let order = dictionary.message(b"D").unwrap();
    let parties =
        order.body.member(453).and_then(|member| member.group).and_then(|group| dictionary.group(group)).unwrap();
    assert_eq!(parties.delimiter(), Some(448));
    let sub = parties.member(802).and_then(|member| member.group).and_then(|group| dictionary.group(group)).unwrap();
    assert_eq!(sub.delimiter(), Some(523));
    assert!(order.body.member(55).is_some() && order.body.member(448).is_none());
}

const SMALL: &str = "<?xml version='1.0'?><!-- a small one -->
<fix type='FIX' major='4' minor='4' servicepack='0'>
 <header><field name='BeginString' required='Y'/><group name='NoHops' required='N'><field name='HopCompID' required='N'/></group></header>
 <trailer><field name='CheckSum' required='Y'/></trailer>
 <messages><message name='Order' msgtype='D' msgcat='app'>
   <field name='ClOrdID' required='Y'/><component name='Instrument' required='N'/>
   <field name='RawDataLength' required='N'/><field name='RawData' required='N'/></message></messages>
 <components><component name='Instrument'><field name='Symbol' required='Y'/><component name='Inner' required='Y'/></component>
   <component name='Inner'><field name='Side' required='Y'/></component></components>
 <fields><field number='8' name='BeginString' type='STRING'/><field number='10' name='CheckSum' type='STRING'/>
   <field number='11' name='ClOrdID' type='STRING'/><field number='55' name='Symbol' type='STRING'/>
   <field number='54' name='Side' type='CHAR'><value enum='1' description='BUY'/><value enum='2' description='SELL'/></field>
   <field number='627' name='NoHops' type='NUMINGROUP'/><field number='628' name='HopCompID' type='STRING'/>
   <field number='95' name='RawDataLength' type='LENGTH'/><field number='96' name='RawData' type='DATA'/></fields>
</fix>";

fn read(xml: &str) -> Result<Dictionary, String> {
    Dictionary::from_quickfix_xml(xml.as_bytes()).map_err(|problem| problem.brief())
}

#[test]
fn quickfix_files_are_read() {
    let dictionary = read(SMALL).unwrap();
    assert_eq!(dictionary.begin_string(), "FIX.4.4");
    let body = &dictionary.message(b"D").unwrap().body;
    assert_eq!(body.members().iter().map(|member| member.tag).collect::<Vec<_>>(), [11, 55, 54, 95, 96]);
    // What an optional component requires is not required of the message.
    assert_eq!(body.members().iter().filter(|member| member.required).count(), 1);
    let side = dictionary.field_by_name("Side").unwrap();
    assert!(side.allows(b"1") && !side.allows(b"3") && side.has_values());
    assert_eq!(dictionary.data_fields(), [(95, 96)]);
    let hops = dictionary.header().member(627).unwrap().group.unwrap();
    assert_eq!(dictionary.group(hops).unwrap().delimiter(), Some(628));
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let small = |from: &str, to: &str| read(&SMALL.replacen(from, to, 1)).expect_err("a fault");
    assert!(small("name='Side' required", "name='Sude' required").ends_with("there is no field Sude"));
    assert!(small("<component name='Inner' ", "<component name='Instrument' ").contains("nested more than 24 deep"));
    assert!(small("<component name='Inner'>", "<component name='Other'>").ends_with("there is no component Inner"));
    assert!(small("number='54'", "number='55'").contains("tag 55 is there twice"));
    assert!(small("number='54'", "number='0'").ends_with("\"0\" is no tag"));
    assert!(small("msgtype='D'", "").ends_with("message Order has no msgtype"));
    assert!(small("major='4'", "").ends_with("no major version"));
    assert!(read("<html/>").expect_err("no dictionary").ends_with("its first element is not <fix>"));
    assert!(read("").is_err() && read("<fix").is_err() && read("<fix major='4' minor='4'>").is_err());
    assert!(read("<fix major='&lol;' minor='4'/>").is_err());
    assert!(Dictionary::from_quickfix_xml(b"\xff\xfe<fix/>").is_err());
}

#[test]
fn a_hostile_file_does_not_grow() {
    let deep = format!("<fix major='4' minor='4'>{}", "<header>".repeat(1000));
    assert!(read(&deep).expect_err("too deep").contains("nested more than"));
    // Each component holds the one before twice: 2^40 fields if they were put in.
    let mut components = "<component name='c0'><field name='A' required='Y'/></component>".to_owned();
    for level in 1..23 {
        let inner = format!("<component name='c{}' required='Y'/>", level - 1).repeat(4);
        components += &format!("<component name='c{level}'>{inner}</component>");
    }
    let bomb = format!(
        "<fix major='4' minor='4'><header><component name='c22' required='Y'/></header><components>{components}</components>\
         <fields><field number='1' name='A' type='STRING'/></fields></fix>"
    );
    assert!(read(&bomb).expect_err("too large").contains("more than 2000000 fields"));
    let wide = format!("<fix major='4' minor='4'>{}</fix>", "<a/>".repeat(600_000));
    assert!(read(&wide).expect_err("too many").contains("more than 500000 elements"));
}

#[test]
fn an_application_speaks_over_a_transport() {
    let transport = Dictionary::fixed(Version::Fixt11);
    let small = read(&SMALL.replace("<header>", "<header><!--").replace("</header>", "--></header>")).unwrap();
    let both = small.with_transport(&transport);
    assert_eq!(both.begin_string(), "FIXT.1.1");
    assert!(both.message(b"A").is_some() && both.message(b"D").is_some());
    assert!(both.field(49).is_some() && both.field(54).is_some_and(|field| !field.allows(b"3")));
    let hops = both.header().member(627).unwrap().group.unwrap();
    assert_eq!(both.group(hops).unwrap().delimiter(), Some(628));
}
