import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * A producer and a worker of pgfairq in Java, with JDBC.
 *
 *   java Letters produce 100 acme    enqueues 100 tasks of the tenant acme
 *   java Letters work                until SIGTERM
 *
 * The database is that of JDBC_URL. When the worker loses its session or the server it
 * halts with 1: its connections close, so that its transactions are rolled back and its
 * tasks are put back. What has started it starts it again.
 */
public class Letters {
	static final String QUEUE = "letters";
	static final int SLOTS = 4; // tasks at a time
	static final int TTL = 5; // seconds; a worker that is silent for so long is taken for dead
	static final Duration GRACE = Duration.ofSeconds(25); // how long tasks may go on after SIGTERM

	/** name: what is to be done. */
	record Task(long id, UUID receipt, String name, int attempt, String to, String seconds) {
	}

	/** An error that no other attempt would mend: the task is dead at once. */
	@SuppressWarnings("serial")
	static class Final extends Exception {
		Final(String message) {
			super(message);
		}
	}

	static final Semaphore free = new Semaphore(SLOTS);
	static final CountDownLatch stopped = new CountDownLatch(1);
	static volatile boolean stopping;

	static Connection connect() throws SQLException {
		return DriverManager.getConnection(System.getenv("JDBC_URL"));
	}

	/** The first column of the first row. */
	static Object call(Connection connection, String sql, Object... arguments) throws SQLException {
		try (PreparedStatement statement = connection.prepareStatement(sql)) {
			for (int i = 0; i < arguments.length; i++)
				statement.setObject(i + 1, arguments[i]);
			if (!statement.execute())
				return null;
			ResultSet rows = statement.getResultSet();
			return rows.next() ? rows.getObject(1) : null;
		}
	}

	/** What is done with a task, by its name. It writes through the connection, within its transaction. */
	static void handle(Connection connection, Task task) throws Exception {
		switch (task.name()) {
			case "letter" -> letter(connection, task);
			default -> throw new IllegalArgumentException("there is no handler for \"" + task.name() + "\""); // another worker may know it
		}
	}

	static void letter(Connection connection, Task task) throws Exception {
		if (task.to() == null)
			throw new Final("the letter goes to nobody");
		call(connection, "INSERT INTO letter (task, attempt, text) VALUES (?, ?, ?)", task.id(), task.attempt(), "Dear " + task.to());
		if (task.seconds() != null)
			Thread.sleep((long) (Double.parseDouble(task.seconds()) * 1000));
	}

	/** What the handler writes and the acknowledgement are one transaction: both or neither. */
	static void run(Connection connection, Task task) throws SQLException {
		try {
			connection.setAutoCommit(false);
			handle(connection, task);
			if ((Boolean) call(connection, "SELECT fairq.ack(?)", task.receipt()))
				connection.commit();
			else
				connection.rollback(); // another worker has the task
			connection.setAutoCommit(true);
		} catch (Exception error) {
			System.err.printf("task %d (\"%s\"), attempt %d: %s%n", task.id(), task.name(), task.attempt(), error);
			connection.rollback();
			connection.setAutoCommit(true);
			byte[] text = error.toString().replace("\0", "").getBytes(StandardCharsets.UTF_8); // as the server takes it
			call(connection, "SELECT fairq.nack(?, left(?, 4000), final => ?)", task.receipt(), new String(text, StandardCharsets.UTF_8),
				error instanceof Final);
		}
	}

	/** Heartbeats beside the work, on a connection of their own, to which the session is bound. */
	static void beat(Connection beats, UUID session) throws Exception {
		beats.setNetworkTimeout(Runnable::run, TTL * 500);
		while (true) {
			Thread.sleep(TTL * 250);
			if (!(Boolean) call(beats, "SELECT fairq.heartbeat(?)", session))
				throw new IllegalStateException("the session is over");
		}
	}

	static List<Task> claim(Connection connection, UUID session, int count) throws SQLException {
		String sql = "SELECT id, receipt, coalesce(name, ''), attempt, payload->>'to', payload->>'seconds' FROM fairq.claim(?, ?, session => ?)";
		List<Task> tasks = new ArrayList<>();
		try (PreparedStatement statement = connection.prepareStatement(sql)) {
			statement.setString(1, QUEUE);
			statement.setInt(2, count);
			statement.setObject(3, session);
			ResultSet rows = statement.executeQuery();
			while (rows.next())
				tasks.add(new Task(rows.getLong(1), rows.getObject(2, UUID.class), rows.getString(3), rows.getInt(4), rows.getString(5), rows.getString(6)));
		}
		return tasks;
	}

	interface Job {
		void run() throws Exception;
	}

	/** A thread; if its job fails, the connections go with the process. */
	static void start(Job job) {
		Thread thread = new Thread(() -> {
			try {
				job.run();
			} catch (Throwable error) {
				error.printStackTrace();
				Runtime.getRuntime().halt(1);
			}
		});
		thread.setDaemon(true);
		thread.start();
	}

	static void work() throws Exception {
		Connection beats = connect(), claims = connect();
		UUID session = (UUID) call(beats, "SELECT fairq.open_session('letters in Java', make_interval(secs => ?), bound => true)", TTL);
		start(() -> beat(beats, session));
		List<Connection> idle = new ArrayList<>();
		while (!stopping) {
			if (!free.tryAcquire(100, TimeUnit.MILLISECONDS))
				continue;
			free.release(); // there is a free slot, which stays free
			List<Task> tasks = claim(claims, session, free.availablePermits());
			for (Task task : tasks) {
				free.acquire();
				start(() -> {
					Connection connection;
					synchronized (idle) {
						connection = idle.isEmpty() ? null : idle.remove(0);
					}
					connection = connection == null ? connect() : connection;
					run(connection, task);
					synchronized (idle) {
						idle.add(connection);
					}
					free.release();
				});
			}
			if (tasks.isEmpty())
				call(claims, "CALL fairq.wait(?, '1 s')", QUEUE); // so long at most goes on after SIGTERM
		}
		for (Instant end = Instant.now().plus(GRACE); free.availablePermits() < SLOTS && Instant.now().isBefore(end);)
			Thread.sleep(20);
		call(claims, "SELECT fairq.close_session(?)", session); // gives back what is left
	}

	/** The tasks are there when and only when the transaction commits. */
	static void produce(int count, String tenant) throws SQLException {
		try (Connection connection = connect()) {
			connection.setAutoCommit(false);
			for (int i = 0; i < count; i++)
				call(connection, "SELECT fairq.enqueue(?, jsonb_build_object('to', ?::text), name => 'letter', group_key => ?)", QUEUE, tenant + " " + i, tenant);
			connection.commit();
		}
	}

	public static void main(String[] arguments) throws Exception {
		if (arguments.length == 3 && arguments[0].equals("produce")) {
			produce(Integer.parseInt(arguments[1]), arguments[2]);
		} else if (arguments.length == 1 && arguments[0].equals("work")) {
			Runtime.getRuntime().addShutdownHook(new Thread(() -> { // SIGTERM: the end waits for the work
				stopping = true;
				try {
					stopped.await();
				} catch (InterruptedException error) {
					return;
				}
				Runtime.getRuntime().halt(0);
			}));
			start(() -> {
				work();
				stopped.countDown();
			});
			stopped.await();
		} else {
			System.err.println("usage: java Letters work | produce COUNT TENANT");
			System.exit(2);
		}
	}
}
