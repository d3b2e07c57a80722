use strict;
use warnings;
pipe(my $reader, my $writer) or die $!;
my $pid = fork // die $!;
if (!$pid) { close $reader; print $writer "child\n"; exit 4 }
close $writer;
die unless <$reader> eq "child\n";
waitpid $pid, 0;
die $? unless $? >> 8 == 4;
flock(STDIN, 8);
print "works\n";
