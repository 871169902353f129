/* Much data, by every kind of call; full buffers. */
#include "fixture.h"

#include <sys/sendfile.h>
#include <sys/uio.h>

#define LENGTH ((size_t)600000)

static char *patterned(unsigned seed)
{
    char *data = malloc(LENGTH);
    pattern(seed, 0, data, LENGTH);
    return data;
}

static bool arrived(long long begun)
{
    return peer_join(begun, NULL, 0) == (long long)LENGTH;
}

static long long peer_reads(int theirs, unsigned seed)
{
    peer_later(0);
    return peer_recv_pattern(theirs, LENGTH, seed);
}

static void one_call(void)
{
    struct pair pair = connected();
    char *data = patterned(1);
    long long begun = peer_reads(pair.theirs, 1);
    check_int("send", send(pair.ours, data, LENGTH, 0), (long long)LENGTH);
    check_true("peer_has_it", arrived(begun));
    peer_later(0);
    begun = peer_send_pattern(pair.theirs, LENGTH, 2);
    memset(data, 0, LENGTH);
    check_int("recv_all", recv(pair.ours, data, LENGTH, MSG_WAITALL), (long long)LENGTH);
    char *expected = patterned(2);
    check_true("data", memcmp(data, expected, LENGTH) == 0);
    check_true("peer_sent_it", arrived(begun));
    free(expected);
    begun = peer_reads(pair.theirs, 3);
    pattern(3, 0, data, LENGTH);
    struct iovec parts[3] = {{data, 100}, {data + 100, 399900}, {data + 400000, LENGTH - 400000}};
    check_int("writev", writev(pair.ours, parts, 3), (long long)LENGTH);
    check_true("peer_has_writev", arrived(begun));
    free(data);
}

static void both_directions(void)
{
    struct pair pair = connected();
    char *out = patterned(4), *in = malloc(LENGTH), *expected = patterned(5);
    long long reading = peer_reads(pair.theirs, 4);
    peer_later(0);
    long long writing = peer_send_pattern(pair.theirs, LENGTH, 5);
    size_t sent = 0, received = 0;
    set_nonblocking(pair.ours, true);
    while (sent < LENGTH || received < LENGTH) {
        int ready = wait_for(pair.ours, (sent < LENGTH ? POLLOUT : 0) | (received < LENGTH ? POLLIN : 0), PATIENCE_MS);
        MUST(ready > 0 ? 0 : -1);
        ssize_t count = ready & POLLOUT ? send(pair.ours, out + sent, LENGTH - sent, 0) : 0;
        sent += count > 0 ? (size_t)count : 0;
        count = ready & POLLIN ? recv(pair.ours, in + received, LENGTH - received, 0) : 0;
        received += count > 0 ? (size_t)count : 0;
    }
    check_true("peer_has_it", arrived(reading));
    check_true("data", memcmp(in, expected, LENGTH) == 0);
    check_true("peer_sent_it", arrived(writing));
    free(out), free(in), free(expected);
}

static int patterned_file(unsigned seed)
{
    char path[] = "/tmp/sidestep-posix-XXXXXX", *data = patterned(seed);
    int file = (int)MUST(mkstemp(path));
    MUST(unlink(path));
    MUST(write(file, data, LENGTH) == (ssize_t)LENGTH ? 0 : -1);
    MUST(lseek(file, 0, SEEK_SET));
    free(data);
    return file;
}

static void by_sendfile(void)
{
    struct pair pair = connected();
    int file = patterned_file(6);
    long long begun = peer_reads(pair.theirs, 6);
    off_t offset = 0;
    while (offset < (off_t)LENGTH)
        MUST(sendfile(pair.ours, file, &offset, LENGTH - (size_t)offset));
    check_true("peer_has_it", arrived(begun));
    check_int("offset", offset, (long long)LENGTH);
    check_int("file_stays", lseek(file, 0, SEEK_CUR), 0);
    begun = peer_reads(pair.theirs, 6);
    for (size_t sent = 0; sent < LENGTH;)
        sent += (size_t)MUST(sendfile(pair.ours, file, NULL, LENGTH - sent));
    check_true("peer_has_it_again", arrived(begun));
    check_int("file_moves", lseek(file, 0, SEEK_CUR), (long long)LENGTH);
    check_int("at_end", sendfile(pair.ours, file, NULL, 10), 0);
    check_fails("from_socket", sendfile(file, pair.ours, NULL, 10), EINVAL);
}

/* tcpi_notsent_bytes, which the C library's struct tcp_info does not have. */
static uint32_t unsent_bytes(int socket)
{
    uint32_t info[40];
    socklen_t length = sizeof info;
    MUST(getsockopt(socket, IPPROTO_TCP, TCP_INFO, info, &length));
    return info[36];
}

/* The end of the file is the end of the data, whatever the count: nothing is held back. */
static void by_sendfile_beyond_the_end(void)
{
    struct pair pair = connected();
    int file = patterned_file(9);
    char data[1024];
    MUST(ftruncate(file, 1000));
    MUST(set_int(pair.ours, IPPROTO_TCP, TCP_NODELAY, 1));
    check_int("sent", sendfile(pair.ours, file, NULL, LENGTH), 1000);
    check_int("nothing_is_unsent", unsent_bytes(pair.ours), 0);
    check_int("peer_has_it", peer_recv(pair.theirs, data, 1000, MSG_WAITALL), 1000);
    MUST(set_int(pair.ours, IPPROTO_TCP, TCP_CORK, 1));
    MUST(lseek(file, 0, SEEK_SET));
    check_int("corked", sendfile(pair.ours, file, NULL, LENGTH), 1000);
    check_int("cork_holds_it", unsent_bytes(pair.ours), 1000);
    MUST(set_int(pair.ours, IPPROTO_TCP, TCP_CORK, 0));
    check_int("peer_has_that", peer_recv(pair.theirs, data, 1000, MSG_WAITALL), 1000);
}

static void by_splice(void)
{
    struct pair pair = connected();
    int file = patterned_file(7), pipes[2];
    MUST(pipe(pipes));
    long long begun = peer_reads(pair.theirs, 7);
    for (size_t sent = 0; sent < LENGTH;) {
        ssize_t in_pipe = MUST(splice(file, NULL, pipes[1], NULL, 30000, 0));
        sent += (size_t)in_pipe;
        while (in_pipe > 0)
            in_pipe -= MUST(splice(pipes[0], NULL, pair.ours, NULL, (size_t)in_pipe, SPLICE_F_MOVE | SPLICE_F_MORE));
    }
    MUST(set_int(pair.ours, IPPROTO_TCP, TCP_NODELAY, 1));
    check_true("out", arrived(begun));
    set_nonblocking(pair.ours, true);
    check_fails("nothing_in", splice(pair.ours, NULL, pipes[1], NULL, 100, 0), EAGAIN);
    set_nonblocking(pair.ours, false);
    peer_later(20);
    begun = peer_send_pattern(pair.theirs, LENGTH, 8);
    char *data = malloc(LENGTH), *expected = patterned(8);
    for (size_t received = 0; received < LENGTH;) {
        ssize_t in_pipe = MUST(splice(pair.ours, NULL, pipes[1], NULL, LENGTH - received, 0));
        MUST(in_pipe ? 0 : -1);
        while (in_pipe > 0) {
            ssize_t taken = MUST(read(pipes[0], data + received, (size_t)in_pipe));
            received += (size_t)taken, in_pipe -= taken;
        }
    }
    check_true("in", memcmp(data, expected, LENGTH) == 0);
    MUST(peer_join(begun, NULL, 0));
    off_t offset = 0;
    check_fails("offset", splice(pair.ours, &offset, pipes[1], NULL, 10, 0), EINVAL);
    MUST(peer_close(pair.theirs));
    check_int("end", splice(pair.ours, NULL, pipes[1], NULL, 100, 0), 0);
    free(data), free(expected);
}

static void full(void)
{
    struct pair pair = connected();
    static char block[65536];
    size_t sent = 0;
    ssize_t count;
    set_nonblocking(pair.ours, true);
    pattern(9, 0, block, 1);
    /* Until nothing moves any more: a part of it goes on to the peer. */
    for (int quiet = 0; quiet < 3;) {
        pattern(9, sent, block, sizeof block);
        count = send(pair.ours, block, sizeof block, 0);
        quiet = count == -1 ? quiet + 1 : 0;
        sent += count > 0 ? (size_t)count : 0;
        pause_ms(count == -1 ? PAUSE_MS : 0);
    }
    check_fails("send", send(pair.ours, block, sizeof block, 0), EAGAIN);
    check_fails("write", write(pair.ours, block, 1), EAGAIN);
    check_int("not_writable", wait_for(pair.ours, POLLOUT, 0), 0);
    peer_later(0);
    long long begun = peer_recv_pattern(pair.theirs, sent, 9);
    check_int("writable", wait_for(pair.ours, POLLOUT, PATIENCE_MS), POLLOUT);
    check_int("peer_has_all", peer_join(begun, NULL, 0), (long long)sent);
    set_nonblocking(pair.ours, false);
    peer_later(50);
    begun = peer_recv_pattern(pair.theirs, sent + LENGTH, 9);
    char *data = malloc(sent + LENGTH);
    pattern(9, 0, data, sent + LENGTH);
    check_int("blocking_waits", send(pair.ours, data, sent + LENGTH, 0), (long long)(sent + LENGTH));
    check_int("blocking_arrives", peer_join(begun, NULL, 0), (long long)(sent + LENGTH));
    free(data);
}

static const struct test tests[] = {
    {"one_call", one_call, FAMILIES_AND_ENDS},
    {"both_directions", both_directions, FAMILIES_AND_ENDS},
    {"by_sendfile", by_sendfile, FAMILIES_AND_ENDS},
    {"by_sendfile_beyond_the_end", by_sendfile_beyond_the_end, FAMILIES_AND_ENDS},
    {"by_splice", by_splice, FAMILIES_AND_ENDS},
    {"full", full, FAMILIES_AND_ENDS},
};

SUBJECT(transfer, tests);
