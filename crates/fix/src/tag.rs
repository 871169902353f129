//! Numbers of the fields that the engine itself reads or writes, by their names in the FIX specification.

macro_rules! tags {
    ($($name:ident = $number:literal)*) => {
        $(#[doc = concat!("Tag ", stringify!($number), ".")] pub const $name: u32 = $number;)*
    };
}

tags! {
    BEGIN_SEQ_NO = 7
    BEGIN_STRING = 8
    BODY_LENGTH = 9
    CHECK_SUM = 10
    END_SEQ_NO = 16
    MSG_SEQ_NUM = 34
    MSG_TYPE = 35
    NEW_SEQ_NO = 36
    POSS_DUP_FLAG = 43
    REF_SEQ_NUM = 45
    SENDER_COMP_ID = 49
    SENDER_SUB_ID = 50
    SENDING_TIME = 52
    TARGET_COMP_ID = 56
    TARGET_SUB_ID = 57
    TEXT = 58
    POSS_RESEND = 97
    ENCRYPT_METHOD = 98
    HEART_BT_INT = 108
    TEST_REQ_ID = 112
    ON_BEHALF_OF_COMP_ID = 115
    ON_BEHALF_OF_SUB_ID = 116
    ORIG_SENDING_TIME = 122
    GAP_FILL_FLAG = 123
    DELIVER_TO_COMP_ID = 128
    DELIVER_TO_SUB_ID = 129
    RESET_SEQ_NUM_FLAG = 141
    SENDER_LOCATION_ID = 142
    TARGET_LOCATION_ID = 143
    ON_BEHALF_OF_LOCATION_ID = 144
    DELIVER_TO_LOCATION_ID = 145
    LAST_MSG_SEQ_NUM_PROCESSED = 369
    REF_TAG_ID = 371
    REF_MSG_TYPE = 372
    SESSION_REJECT_REASON = 373
    BUSINESS_REJECT_REF_ID = 379
    BUSINESS_REJECT_REASON = 380
    USERNAME = 553
    PASSWORD = 554
    NEXT_EXPECTED_MSG_SEQ_NUM = 789
    APPL_VER_ID = 1128
    DEFAULT_APPL_VER_ID = 1137
    SESSION_STATUS = 1409
}
