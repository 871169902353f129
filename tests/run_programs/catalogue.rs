//! Programs of Debian, and the lines by which bash starts them.

/// A server and a client. Bash runs the lines with `-euo pipefail`: `$HERE` is the server's IPv4 address, `$HERE6` its IPv6 one, `$ME` the
/// IPv4 address of who runs the line, `$DIR` a folder of both hosts with [`FILES`] and `file`, 10 MB of text; `$TIMES` is
/// SIDESTEP_TIMES, for longer runs. What the client prints does not vary.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The programs that have to be there: names, or paths below the repository.
    pub(crate) needs: &'static [&'static str],
    pub(crate) port: u16,
    pub(crate) server: &'static str,
    pub(crate) client: &'static str,
}

/// Files that servers read. `DIR` is their folder.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("nginx.conf", include_str!("nginx.conf")),
    ("haproxy.cfg", include_str!("haproxy.cfg")),
    ("acceptor.cfg", include_str!("acceptor.cfg")),
    ("initiator.cfg", include_str!("initiator.cfg")),
];

pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "redis-server, redis-cli, redis-benchmark",
        what: "two I/O threads; SET and GET over IPv4 and IPv6, 3 MB values, publish and subscribe, a fork by BGSAVE, benchmarks with \
               pipelines of 16 and values of 100,000 bytes",
        needs: &["redis-server", "redis-cli", "redis-benchmark"],
        port: 7001,
        server: "exec redis-server --port 7001 --bind 0.0.0.0 :: --save '' --protected-mode no --dir $DIR --io-threads 2 \
                 --io-threads-do-reads yes",
        client: r"
            redis='redis-cli -p 7001 -h'
            $redis $HERE set key value
            $redis $HERE6 get key
            head -c 3000000 $DIR/file | $redis $HERE -x set large
            $redis $HERE6 get large | md5sum
            redis-benchmark -h $HERE -p 7001 -n $((500 * TIMES)) -c 8 -q -t set,get,lpush > $DIR/benchmark
            redis-benchmark -h $HERE -p 7001 -n $((2000 * TIMES)) -c 20 -P 16 -q -t set,get > $DIR/benchmark
            redis-benchmark -h $HERE -p 7001 -n $((20 * TIMES)) -c 4 -d 100000 -q -t set,get > $DIR/benchmark
            $redis $HERE subscribe news > $DIR/news & subscriber=$!
            until [[ $($redis $HERE publish news hello) == 1 ]]; do sleep 0.05; done
            until grep -q hello $DIR/news; do sleep 0.05; done
            kill $subscriber
            cat $DIR/news
            $redis $HERE bgsave
            until [[ $($redis $HERE info persistence) == *rdb_bgsave_in_progress:0* ]]; do sleep 0.05; done
            $redis $HERE info persistence | grep -o 'rdb_last_bgsave_status:[a-z]*'
            $redis $HERE get key",
    },
    Program {
        name: "nginx, curl, wrk",
        what: "a master and two workers, sendfile, keep-alive; 10 MB over IPv4, IPv6 and TLS, a resumed download, 8 connections of wrk",
        needs: &["nginx", "curl", "wrk", "openssl"],
        port: 7002,
        server: "cd $DIR; openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=lab -keyout key.pem -out cert.pem 2> openssl.log; \
                 exec nginx -p $DIR -e stderr -c $DIR/nginx.conf",
        client: r"
            curl -sS http://$HERE:7002/file | md5sum
            curl -sS http://[$HERE6]:7002/file | md5sum
            curl -sS -k https://$HERE:7022/file | md5sum
            curl -sS -r 1000000-1999999 http://$HERE:7002/file | md5sum
            curl -sS http://$HERE:7002/nginx.conf http://$HERE:7002/nginx.conf http://$HERE:7002/nginx.conf | md5sum
            wrk -t2 -c8 -d${TIMES}s http://$HERE:7002/nginx.conf > $DIR/wrk
            ! grep -E 'Socket errors|Non-2xx' $DIR/wrk",
    },
    Program {
        name: "memcached, memccapable, memcslap",
        what: "four threads; its protocol by hand and by memccapable, both forms, and 4 clients of memcslap",
        needs: &["memcached", "nc", "memccapable", "memcslap"],
        port: 7003,
        server: "exec memcached -u root -t 4 -p 7003 -U 0 -l 0.0.0.0",
        client: r"
            printf 'set a 0 0 5\r\nhello\r\nget a\r\nquit\r\n' | nc $HERE 7003
            memccapable -h $HERE -p 7003 | sort | uniq -c
            memcslap --servers=$HERE:7003 --concurrency=4 --execute-number=$((250 * TIMES)) --test=set | grep -oE '[gs]et +[0-9]+ keys by +4 threads'
            memcslap --servers=$HERE:7003 --concurrency=4 --execute-number=$((250 * TIMES)) --test=get | grep -oE '[gs]et +[0-9]+ keys by +4 threads'",
    },
    Program {
        name: "iperf3",
        what: "TCP there and back, four streams at once, both directions at once; UDP both ways",
        needs: &["iperf3"],
        port: 7004,
        server: "exec iperf3 -s -p 7004",
        // Its server closes its listener after each test, and listens again.
        client: r"
            iperf3() { sleep 0.3; command iperf3 $@ | grep -o 'iperf Done.'; }
            iperf3 -c $HERE -p 7004 -n 10M
            iperf3 -c $HERE6 -p 7004 -n 10M -R
            iperf3 -c $HERE -p 7004 -n 10M -P 4
            iperf3 -c $HERE -p 7004 -n 5M --bidir
            iperf3 -c $HERE -p 7004 -n $((300 * TIMES))K -u -b 10M
            iperf3 -c $HERE6 -p 7004 -n $((300 * TIMES))K -u -b 10M -R",
    },
    Program {
        name: "socat",
        what: "a server that forks for each connection, a line, and 10 MB there and back",
        needs: &["socat"],
        port: 7005,
        server: "exec socat TCP-LISTEN:7005,reuseaddr,fork EXEC:cat",
        client: r"
            echo hello | socat -t5 - TCP:$HERE:7005
            socat -t5 - TCP:$HERE:7005 < $DIR/file | md5sum",
    },
    Program {
        name: "PostgreSQL, psql, pgbench",
        what: "a process for each connection; a table of 100,000 rows there and back, 4 clients of pgbench in two threads",
        needs: &["/usr/lib/postgresql/15/bin/postgres", "psql", "pgbench", "pg_isready"],
        port: 7006,
        server: r"
            as_user='setpriv --reuid=postgres --regid=postgres --clear-groups'
            bin=/usr/lib/postgresql/15/bin
            if [[ ! -d $DIR/postgres ]]; then
                install -d -o postgres -g postgres -m 700 $DIR/postgres
                $as_user $bin/initdb -D $DIR/postgres -A trust -N > $DIR/initdb.log
                echo 'host all all all trust' >> $DIR/postgres/pg_hba.conf
            fi
            cd $DIR/postgres
            exec $as_user $bin/postgres -D $DIR/postgres -p 7006 -h '*' -k '' -F",
        client: r"
            export PGUSER=postgres PGPORT=7006 PGCONNECT_TIMEOUT=10
            until pg_isready -q -h $HERE; do sleep 0.1; done
            psql -h $HERE -qAtc 'select 6 * 7'
            psql -h $HERE6 -qAtc 'drop table if exists rows' -c 'create table rows (n int, t text)' 2> /dev/null
            seq 100000 | sed 's/.*/&\trow &/' | psql -h $HERE -qc 'copy rows from stdin'
            psql -h $HERE6 -qc 'copy rows to stdout' | md5sum
            pgbench -h $HERE -i -q postgres 2> /dev/null
            pgbench -h $HERE -c 4 -j 2 -t $((25 * TIMES)) -n postgres 2> $DIR/pgbench | grep 'actually processed'",
    },
    Program {
        name: "Python's http.server, curl",
        what: "a thread for each connection; 10 MB over IPv4 and IPv6, a missing page",
        needs: &["/usr/bin/python3", "curl"],
        port: 7007,
        server: "exec /usr/bin/python3 -m http.server 7007 --bind :: -d $DIR",
        client: r"
            curl -sS http://$HERE:7007/file | md5sum
            curl -sS http://[$HERE6]:7007/file | md5sum
            curl -sS -o /dev/null -w '%{http_code}\n' http://$HERE:7007/none",
    },
    Program {
        name: "openssl s_server and s_client",
        what: "10 MB over TLS 1.3 and TLS 1.2",
        needs: &["openssl"],
        port: 7008,
        server: "cd $DIR; openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=lab -keyout key.pem -out cert.pem 2> openssl.log; \
                 exec openssl s_server -quiet -WWW -accept 7008 -key key.pem -cert cert.pem",
        client: r"
            for version in tls1_3 tls1_2; do
                printf 'GET /file HTTP/1.0\r\n\r\n' | openssl s_client -quiet -$version -connect $HERE:7008 2> $DIR/s_client | md5sum ||
                    { cat $DIR/s_client >&2; false; }
            done",
    },
    Program {
        name: "HAProxy, curl",
        what: "two threads; HTTP and TCP to a server on loopback, 10 MB over IPv4 and IPv6",
        needs: &["haproxy", "curl", "/usr/bin/python3"],
        port: 7009,
        server: "setpriv --pdeathsig TERM /usr/bin/python3 -m http.server 7010 --bind 127.0.0.1 -d $DIR & \
                 until curl -s -o /dev/null http://127.0.0.1:7010/none; do sleep 0.1; done; exec haproxy -db -f $DIR/haproxy.cfg",
        client: r"
            curl -sS http://$HERE:7009/file | md5sum
            curl -sS http://[$HERE6]:7009/file | md5sum
            curl -sS http://$HERE:7019/file | md5sum",
    },
    Program {
        name: "Node's http",
        what: "10 MB by a program of Node, 20 requests at a time over kept connections",
        needs: &["node"],
        port: 7011,
        server: "exec node -e 'const file = require(\"fs\").readFileSync(process.env.DIR + \"/file\"); \
                 require(\"http\").createServer((q, a) => a.end(q.url == \"/file\" ? file : q.url)).listen(7011)'",
        client: r#"
            node -e '
                const at = process.env.HERE, agent = new (require("http").Agent)({keepAlive: true, maxSockets: 20});
                const get = path => new Promise((good, bad) => require("http").get({host: at, port: 7011, path, agent}, answer => {
                    const hash = require("crypto").createHash("md5");
                    answer.on("data", data => hash.update(data)).on("end", () => good(hash.digest("hex")));
                }).on("error", bad));
                (async () => {
                    console.log(await get("/file"));
                    const all = await Promise.all([...Array(200).keys()].map(n => get("/" + n)));
                    console.log(new Set(all).size);
                    agent.destroy();
                })();'"#,
    },
    Program {
        name: "sockperf",
        what: "ping-pong over TCP, UDP and multicast, in turn",
        needs: &["sockperf"],
        port: 7012,
        // One process, which has a socket of each kind.
        server: r"
            printf '%s\n' T:0.0.0.0:7012 U:$HERE:7013 U:239.1.2.3:7016 > $DIR/feed
            exec sockperf server -f $DIR/feed -F epoll --mc-rx-if $HERE --mc-tx-if $HERE",
        client: r"
            sed -i s/0.0.0.0/$HERE/ $DIR/feed
            sockperf ping-pong -f $DIR/feed -F epoll -t $TIMES --mc-rx-if $ME --mc-tx-if $ME 2>&1 |
                grep -oE '(dropped|duplicated|out-of-order) messages = [0-9]+'",
    },
    Program {
        name: "nc",
        what: "one connection after the other, 10 MB there, ended by a FIN (-N), a line back",
        needs: &["nc"],
        port: 7014,
        // An nc that finds its port taken for a moment has received nothing.
        server: r"
            trap 'kill $!; exit' TERM
            while true; do
                nc -N -l 7014 <<< end > $DIR/received & wait $! || true
                [[ ! -s $DIR/received ]] || md5sum < $DIR/received > $DIR/sum
            done",
        client: r"
            rm -f $DIR/sum $DIR/line
            until grep -qs end $DIR/line; do nc -N $HERE 7014 < $DIR/file > $DIR/line || sleep 0.1; done
            until [[ -s $DIR/sum ]]; do sleep 0.1; done
            cat $DIR/line $DIR/sum",
    },
    Program {
        name: "bash",
        what: "a connection by a redirection to /dev/tcp, written and read by builtins and by programs that it starts",
        needs: &["bash", "socat"],
        port: 7016,
        server: "exec socat TCP-LISTEN:7016,fork,reuseaddr EXEC:cat",
        client: r"
            exec 3<>/dev/tcp/$HERE/7016
            echo one >&3
            read -r line <&3; echo $line
            printf '%s\n' two three >&3
            head -c 4 <&3
            seq 1 3 >&3
            for number in 1 2 3 4; do read -r line <&3; echo $line; done
            exec 3>&-",
    },
    Program {
        name: "Java: QuickFIX/J",
        what: "an acceptor and an initiator: logon, 200 orders, two execution reports for each, logout",
        needs: &["java", "peers/fix/quickfixj/target/classes/Orders.class"],
        port: 7015,
        server: "exec java -cp \"$JAVA\" Acceptor $DIR/acceptor.cfg memory one",
        client: "java -cp \"$JAVA\" Orders $DIR/initiator.cfg $HERE $((200 * TIMES))",
    },
];
