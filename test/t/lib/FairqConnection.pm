# What sql() and its like of FairqNode.pm ask through: a script in a session of its own,
# with the answers that psql gives, but without a psql, for to start one takes longer than
# what most scripts do.
#
# A session of its own is a new connection, which has ended, with its server process, before
# the answer is there: nothing is left behind for the next script, or for those that count
# sessions. As a server process takes a while to start and to end, too, it is kept for the
# next script when this one only reads and writes rows and calls functions that leave
# nothing in it; DISCARD ALL is between the two. Of each node one is kept at most. It ends
# before a script does something else there (a DROP DATABASE, say), and before any program
# is started or a server stopped, reloaded or restarted: these find no session but the ones
# that the test has opened itself.

package FairqConnection;

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils ();
use Socket;

# The connection that is kept of a node, by its port.
my %kept;

# Run a script in a session of its own, until its first error. Answers psql's exit code (3:
# there was an error; 2: the connection was lost), its output, and what it would write to
# standard error. Answers nothing, and has done nothing, when that is for a psql: the script
# has commands of psql's own, or only it can connect. verbose: errors have the SQLSTATE
# and all else that is known.
sub run_script
{
	my ($node, $db, $sql, $verbose) = @_;
	my @statements = statements($sql) or return;
	my $keep = leaves_nothing(@statements) && !$node->{fairq_keeps_none} && !$ENV{PGOPTIONS};
	my $self = take_kept($node, $keep ? $db : undef) // connect_to($node, $db) // return;

	# There is no server, or it takes no connections. (A psql that ends of that before it has
	# read its script would be the end of the test.)
	return (2, '', $self) unless ref $self;

	@$self{qw(out err verbose)} = ('', '', $verbose);
	foreach my $statement (@statements)
	{
		@$self{qw(line text)} = @$statement;
		last unless $self->execute;
	}
	chomp(my @answer = @$self{qw(status out err)});
	if ($keep && $self->is_clean)
	{
		$kept{ $node->port } = $self;
	}
	else
	{
		$self->end;
	}
	return @answer;
}

# --- connections that are kept ----------------------------------------------

# May the next script have the same session?
sub leaves_nothing
{
	my (@statements) = @_;

	foreach (map { $_->[1] } @statements)
	{
		return 0
		  unless /^(?:SELECT|WITH|INSERT|UPDATE|DELETE|VALUES|TABLE|DO|CALL)\b/i;
		# What writes to a catalog may tell no session of it.
		return 0 if /^(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(?:pg_catalog\.)?pg_/i;
		# Sessions of workers may be bound to a backend; statistics are complete
		# when it has ended.
		return 0 if /session|bound|set_config|setseed|advisory|cursor|pg_stat_(?!activity)|pg_statio|pg_reload|terminate/i;
	}
	return 1;
}

# Is the session as a new one again?
sub is_clean
{
	my ($self) = @_;

	return 0 if $self->{status} || $self->{xact} ne 'I';
	$self->{text} = 'DISCARD ALL';
	return $self->execute;
}

# That of the node, if it is there still and is in this database; else it is ended.
sub take_kept
{
	my ($node, $db) = @_;
	my $self = delete $kept{ $node->port } or return;

	return $self if defined $db && $self->{db} eq $db && $self->{pid} == $$ && !defined $self->pending;
	$self->end;
	return;
}

# What is there to read: '' at the end of the connection, undef if nothing.
sub pending
{
	my ($self) = @_;
	my $some;

	return defined recv($self->{socket}, $some, 1, MSG_PEEK | MSG_DONTWAIT) ? $some : undef;
}

# None is kept any more.
sub end_kept
{
	delete($kept{$_})->end for keys %kept;
	return;
}

# All that starts programs, or servers, goes through these.
BEGIN
{
	no warnings 'redefine';
	my ($start, $system_log) = (\&IPC::Run::start, \&PostgreSQL::Test::Utils::system_log);

	*IPC::Run::start = sub { end_kept(); goto &$start };
	*PostgreSQL::Test::Utils::system_log = sub { end_kept(); goto &$system_log };
}

# --- scripts ----------------------------------------------------------------

my $letter = qr/[A-Za-z_\x80-\xff]/;
# Where one is looked for again after each, the longer ones come first.
my $token = qr{
	  --[^\n]*+
	| /\*(?:(?!\*/|/\*).)*+\*/
	| [eE]'(?:[^'\\]|\\.|'')*+'
	| '(?:[^']|'')*+'
	| "(?:[^"]|"")*+"
	| ${letter}[\w\$\x80-\xff]*+
	| \$(?<tag>(?:$letter[\w\x80-\xff]*+)?)\$.*?\$\g{tag}\$
	| ::
	| [\s\d,.=<>*+|]++
	| [^\\'";()]
}xs;

# The statements of a script, as psql would send them, each with the number of its last
# line; none when there is something that only psql does.
sub statements
{
	my ($sql) = @_;
	my ($depth, $begin, $blank, $line, @statements) = (0, 0, 1, 1);

	# Data and messages that come beside the answers, and semicolons within a statement.
	return if $sql =~ /\bstd(?:in|out)\b|\blisten\b|\bbegin\s+atomic\b/i;
	utf8::encode($sql) if utf8::is_utf8($sql);
	pos($sql) = 0;
	while (pos($sql) < length $sql)
	{
		my $start = pos $sql;

		# what is in front of a statement is not sent
		if ($blank && $sql =~ /\G(?:\s+|--[^\n]*+)/gc)
		{
			$begin = pos $sql;
		}
		elsif ($sql =~ /\G;/gc)
		{
			next if $depth;
			$line = 1 + (substr($sql, 0, pos $sql) =~ tr/\n//);
			push @statements, [ $line, substr($sql, $begin, pos($sql) - $begin) ] unless $blank;
			($begin, $blank) = (pos $sql, 1);
			next;
		}
		elsif ($sql =~ /\G([()])/gc)
		{
			$depth += $1 eq '(' ? 1 : $depth ? -1 : 0;
			$blank = 0;
		}
		# a variable that psql has
		elsif ($sql =~ /\G:['"]?[A-Z]/gc || $sql !~ /\G$token/gc)
		{
			return;
		}
		else
		{
			$blank = 0;
		}
	}
	push @statements, [ 1 + ($sql =~ tr/\n//), substr $sql, $begin ] unless $blank;
	return @statements;
}

# --- the protocol -----------------------------------------------------------

# A new session, or why there is none; undef: only psql can connect.
sub connect_to
{
	my ($node, $db) = @_;
	my $self = bless { in => '', out => '', err => '', status => 0, db => $db, pid => $$ }, __PACKAGE__;
	my %parameters = (
		user => $ENV{PGUSER} // scalar getpwuid $>,
		database => $db,
		application_name => $ENV{PGAPPNAME} // 'psql',
		$ENV{PGOPTIONS} ? (options => $ENV{PGOPTIONS}) : ());
	my ($type, $body);

	return unless $node->host =~ m{^/};
	socket($self->{socket}, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
	connect($self->{socket}, pack_sockaddr_un($node->host . '/.s.PGSQL.' . $node->port))
	  or return "psql: error: connection to server failed: $!";
	$self->write_message('', pack('N', 196608) . join('', map { "$_\0" } %parameters) . "\0");
	do
	{
		($type, $body) = $self->read_message
		  or return 'psql: error: connection to server failed: server closed the connection unexpectedly';
		return 'psql: error: connection to server failed: ' . join(':  ', @{ { map { /^(.)(.*)/s } split /\0/, $body } }{qw(S M)})
		  if $type eq 'E';
		return if $type eq 'R' && $body ne "\0\0\0\0";
	} while ($type ne 'Z');
	return $self;
}

# End it, and wait until the server process has ended: the kernel closes its socket then.
# One that is stopped does not.
sub end
{
	my ($self) = @_;

	# another process may have it still, from which this one was forked
	return if $self->{pid} != $$;
	$self->write_message('X', '');
	setsockopt $self->{socket}, SOL_SOCKET, SO_RCVTIMEO, pack('l!l!', 10, 0);
	1 while sysread $self->{socket}, my $rest, 8192;
	close $self->{socket};
	return;
}

sub write_message
{
	my ($self, $type, $body) = @_;
	my $message = $type . pack('N', 4 + length $body) . $body;

	local $SIG{PIPE} = 'IGNORE';
	while (length $message)
	{
		my $written = syswrite $self->{socket}, $message;

		return unless defined $written || $!{EINTR};
		substr $message, 0, $written // 0, '';
	}
	return;
}

# The type and the body of a message; nothing when the connection is lost.
sub read_message
{
	my ($self) = @_;

	while (1)
	{
		my $length = length $self->{in} < 5 ? undef : unpack 'x N', $self->{in};

		if (defined $length && length $self->{in} > $length)
		{
			my $message = substr $self->{in}, 0, 1 + $length, '';

			return (substr($message, 0, 1), substr $message, 5);
		}
		my $read = sysread $self->{socket}, $self->{in}, 65536, length $self->{in};
		return unless $read || (!defined $read && $!{EINTR});
	}
}

# Execute the statement. False: there was an error.
sub execute
{
	my ($self) = @_;
	my $before = length $self->{out};

	$self->write_message('Q', "$self->{text}\0");
	while (my ($type, $body) = $self->read_message)
	{
		$self->row($body) if $type eq 'D';
		$self->said($body) if $type eq 'N' || $type eq 'E';
		$self->{status} = 3 if $type eq 'E';
		$self->{xact} = $body;
		return $self->{status} == 0 if $type eq 'Z';
	}
	$self->{status} = 2;
	substr $self->{out}, $before, length $self->{out}, '';
	$self->{err} .= "psql:<stdin>:$self->{line}: $_\n"
	  for "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n\tbefore or while processing the request.",
	  'error: connection to server was lost';
	return 0;
}

sub row
{
	my ($self, $body) = @_;
	my ($number, $at, @columns) = (unpack('n', $body), 2);

	while ($number-- > 0)
	{
		my $length = unpack 'N', substr $body, $at, 4;

		$length = 0 if $length == 0xffffffff;    # NULL
		push @columns, substr $body, $at + 4, $length;
		$at += 4 + $length;
	}
	$self->{out} .= join('|', @columns) . "\n" if @columns;
	return;
}

# An error or a notice, in psql's words.
sub said
{
	my ($self, $body) = @_;
	my %field = map { /^(.)(.*)/s } split /\0/, $body;
	my @lines = join ':  ', $field{S}, ($self->{verbose} ? "$field{C}: " : '') . $field{M};

	if ($field{P} && $field{P} <= length $self->{text})
	{
		my $before = substr $self->{text}, 0, $field{P} - 1;
		my $label = 'LINE ' . (1 + ($before =~ tr/\n//)) . ': ';
		my ($head) = $before =~ /([^\n]*)\z/;
		my ($tail) = substr($self->{text}, $field{P} - 1) =~ /^([^\n]*)/;

		push @lines, "$label$head$tail", ' ' x length("$label$head") . '^';
	}
	my @others = ([ D => 'DETAIL' ], [ H => 'HINT' ], [ q => 'QUERY' ]);
	push @others, [ W => 'CONTEXT' ] if $field{S} !~ /^(?:NOTICE|INFO|LOG|DEBUG|WARNING)/;
	push @others, [ s => 'SCHEMA NAME' ], [ t => 'TABLE NAME' ], [ c => 'COLUMN NAME' ], [ d => 'DATATYPE NAME' ], [ n => 'CONSTRAINT NAME' ]
	  if $self->{verbose};
	push @lines, map { "$_->[1]:  $field{$_->[0]}" } grep { defined $field{ $_->[0] } } @others;
	push @lines, "LOCATION:  $field{R}, $field{F}:$field{L}" if $self->{verbose} && defined $field{F};
	$self->{err} .= "psql:<stdin>:$self->{line}: " . join("\n", @lines) . "\n";
	return;
}

1;
