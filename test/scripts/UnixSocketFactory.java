import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import javax.net.SocketFactory;

/** Leads PostgreSQL's JDBC driver, which knows TCP only, to the socket file that it is given. */
public class UnixSocketFactory extends SocketFactory {
	private final String path;

	public UnixSocketFactory(String path) {
		this.path = path;
	}

	@Override
	public Socket createSocket() throws IOException {
		return new UnixSocket(SocketChannel.open(UnixDomainSocketAddress.of(path)));
	}

	@Override
	public Socket createSocket(String host, int port) throws IOException {
		return createSocket();
	}

	@Override
	public Socket createSocket(String host, int port, InetAddress from, int fromPort) throws IOException {
		return createSocket();
	}

	@Override
	public Socket createSocket(InetAddress host, int port) throws IOException {
		return createSocket();
	}

	@Override
	public Socket createSocket(InetAddress host, int port, InetAddress from, int fromPort) throws IOException {
		return createSocket();
	}

	/** What the driver calls of a socket; options of TCP do nothing. */
	private static class UnixSocket extends Socket {
		private final SocketChannel channel;

		UnixSocket(SocketChannel channel) {
			this.channel = channel;
		}

		@Override
		public void connect(SocketAddress server, int timeout) {
		}

		@Override
		public boolean isConnected() {
			return true;
		}

		@Override
		public InputStream getInputStream() {
			return Channels.newInputStream(channel);
		}

		@Override
		public OutputStream getOutputStream() {
			return Channels.newOutputStream(channel);
		}

		@Override
		public void close() throws IOException {
			channel.close();
		}

		@Override
		public void setTcpNoDelay(boolean on) {
		}

		@Override
		public void setKeepAlive(boolean on) {
		}

		@Override
		public void setSoTimeout(int milliseconds) {
		}

		@Override
		public int getSoTimeout() {
			return 0;
		}
	}
}
