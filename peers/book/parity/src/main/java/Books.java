import com.paritytrading.parity.book.Market;
import com.paritytrading.parity.book.MarketListener;
import com.paritytrading.parity.book.OrderBook;
import com.paritytrading.parity.book.Side;
import it.unimi.dsi.fastutil.longs.LongBidirectionalIterator;
import it.unimi.dsi.fastutil.longs.LongSortedSet;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/**
 * Parity's books, fed with the messages of a file: {@code Books time|check FILE INSTRUMENTS FIRST SLICE}. A record of the file has 32
 * bytes, as in src/file.rs. The messages before FIRST are not timed; they warm the JVM up. {@code time} prints ns per message of each
 * slice, {@code check} a checksum of the books after every message.
 */
public final class Books {
    private static final int RECORD = 32;

    private final Market market = new Market(new MarketListener() {
        @Override
        public void update(OrderBook book, boolean bbo) {
            updates++;
        }

        @Override
        public void trade(OrderBook book, Side side, long price, long size) {
        }
    });
    private long updates;

    private byte[] kinds;
    private boolean[] buys;
    private int[] locates;
    private int[] shares;
    private int[] prices;
    private long[] references;
    private long[] olds;
    private OrderBook[] books;

    public static void main(String[] arguments) throws IOException {
        Books books = new Books();
        books.read(Path.of(arguments[1]));
        books.open(Integer.parseInt(arguments[2]));
        int first = Integer.parseInt(arguments[3]);
        int slice = Integer.parseInt(arguments[4]);
        if (arguments[0].equals("check")) {
            System.out.println(books.check());
        } else {
            books.time(first, slice);
        }
    }

    private void read(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file)) {
            int count = (int) (channel.size() / RECORD);
            kinds = new byte[count];
            buys = new boolean[count];
            locates = new int[count];
            shares = new int[count];
            prices = new int[count];
            references = new long[count];
            olds = new long[count];
            ByteBuffer part = ByteBuffer.allocate(RECORD << 15).order(ByteOrder.LITTLE_ENDIAN);
            for (int at = 0; at < count;) {
                part.clear();
                while (part.hasRemaining() && channel.read(part) >= 0) {
                }
                part.flip();
                for (; part.remaining() >= RECORD; at++) {
                    references[at] = part.getLong();
                    olds[at] = part.getLong();
                    shares[at] = part.getInt();
                    prices[at] = part.getInt();
                    locates[at] = part.getShort() & 0xffff;
                    kinds[at] = part.get();
                    buys[at] = part.get() != 0;
                    part.getInt();
                }
            }
        }
    }

    private void open(int instruments) {
        books = new OrderBook[instruments + 1];
        for (int locate = 1; locate <= instruments; locate++) {
            books[locate] = market.open(locate);
        }
    }

    private void apply(int at) {
        long reference = references[at];
        switch (kinds[at]) {
        case 'A':
        case 'F':
            market.add(locates[at], reference, buys[at] ? Side.BUY : Side.SELL, prices[at], shares[at]);
            break;
        case 'E':
        case 'C':
            market.execute(reference, shares[at]);
            break;
        case 'X':
            market.cancel(reference, shares[at]);
            break;
        case 'D':
            market.delete(reference);
            break;
        default:
            // It has no replace.
            market.delete(olds[at]);
            market.add(locates[at], reference, buys[at] ? Side.BUY : Side.SELL, prices[at], shares[at]);
        }
    }

    private void time(int first, int slice) {
        // CPU time of this thread: collecting garbage and compiling are others' and not in the figure.
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        apply(0, first);
        for (int at = first; at + slice <= kinds.length; at += slice) {
            long start = threads.getCurrentThreadCpuTime();
            apply(at, at + slice);
            System.out.println((double) (threads.getCurrentThreadCpuTime() - start) / slice);
        }
        if (updates == 0) {
            throw new IllegalStateException("nothing has changed");
        }
    }

    private void apply(int from, int to) {
        for (int at = from; at < to; at++) {
            apply(at);
        }
    }

    /** After each message the touch of its instrument; after each 1024th all of its levels. */
    private String check() {
        long sum = 0;
        for (int at = 0; at < kinds.length; at++) {
            apply(at);
            OrderBook book = books[locates[at]];
            boolean all = at % 1024 == 0;
            sum = levels(sum, book, book.getBidPrices(), true, all);
            sum = levels(sum, book, book.getAskPrices(), false, all);
        }
        return Long.toHexString(sum);
    }

    private static long levels(long sum, OrderBook book, LongSortedSet prices, boolean bid, boolean all) {
        for (LongBidirectionalIterator each = prices.iterator(); each.hasNext();) {
            long price = each.nextLong();
            sum = fold(fold(sum, price), bid ? book.getBidSize(price) : book.getAskSize(price));
            if (!all) {
                break;
            }
        }
        return fold(sum, bid ? 1 : 2);
    }

    private static long fold(long sum, long value) {
        return (Long.rotateLeft(sum, 5) ^ value) * 0x9e3779b97f4a7c15L;
    }
}
